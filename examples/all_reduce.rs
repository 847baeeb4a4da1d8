// Adds up one buffer per rank from Rust, through the C ABI: two ranks in contexts of their own, of two vendors where the
// machine has them. The collective returns at once; each rank's own queue goes on when that rank's event is complete.
// rustc all_reduce.rs -L native=$(pkg-config --variable=libdir clique)
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::{mem, process, ptr};

const COUNT: usize = 1_000_000;

type Handle = *mut c_void; // every object of OpenCL's, and clq_group: a pointer to what only its library knows

// clq_rank and clq_slice of clique/comm.h, passed as C arrays: without repr(C) Rust may order the members as it likes.
#[repr(C)]
struct RankHandles { context: Handle, device: Handle, queue: Handle }
#[repr(C)]
struct Slice { memory: Handle, offset: usize }

// Enums are C ints. Of clique/status.h, types.h and comm.h, whose lists only grow at their ends, then of CL/cl.h.
const CLQ_OK: c_int = 0;
const CLQ_F32: c_int = 0;
const CLQ_REDOP_SUM: c_int = 0;
const CL_SUCCESS: c_int = 0;
const CL_TRUE: c_uint = 1;
const CL_DEVICE_TYPE_ALL: u64 = 0xFFFFFFFF;

#[link(name = "clique")]
extern "C" {
    fn clq_group_create(ranks: *const RankHandles, count: c_uint, config: *const c_void, out: *mut Handle) -> c_int;
    fn clq_group_destroy(group: Handle);
    fn clq_group_alloc(group: Handle, rank: c_uint, bytes: usize, out: *mut Handle) -> c_int;
    fn clq_all_reduce(group: Handle, from: *const Slice, to: *const Slice, count: usize, dtype: c_int, op: c_int,
                      waits: *const Handle, done: *mut Handle) -> c_int;
    fn clq_group_wait(group: Handle) -> c_int;
    fn clq_status_text(status: c_int) -> *const c_char;
    fn clq_error_detail() -> *const c_char;
}

#[link(name = "OpenCL")]
extern "C" {
    fn clGetPlatformIDs(room: c_uint, out: *mut Handle, count: *mut c_uint) -> c_int;
    fn clGetDeviceIDs(platform: Handle, kind: u64, room: c_uint, out: *mut Handle, count: *mut c_uint) -> c_int;
    fn clCreateContext(properties: *const isize, count: c_uint, devices: *const Handle, notify: *const c_void,
                       data: *mut c_void, error: *mut c_int) -> Handle;
    fn clCreateCommandQueue(context: Handle, device: Handle, properties: u64, error: *mut c_int) -> Handle;
    fn clEnqueueWriteBuffer(queue: Handle, memory: Handle, blocking: c_uint, offset: usize, bytes: usize,
                            from: *const c_void, waits: c_uint, list: *const Handle, done: *mut Handle) -> c_int;
    fn clEnqueueReadBuffer(queue: Handle, memory: Handle, blocking: c_uint, offset: usize, bytes: usize,
                           to: *mut c_void, waits: c_uint, list: *const Handle, done: *mut Handle) -> c_int;
    fn clReleaseContext(context: Handle) -> c_int;
    fn clReleaseCommandQueue(queue: Handle) -> c_int;
    fn clReleaseEvent(event: Handle) -> c_int;
}

// Both texts are the library's, the detail only until this thread's next failure: copied at once.
fn check(status: c_int) -> Result<(), String> {
    let own = |text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    if status == CLQ_OK { return Ok(()); }
    Err(unsafe { format!("{}: {}", own(clq_status_text(status)), own(clq_error_detail())) })
}

fn check_cl(error: c_int, what: &str) -> Result<(), String> {
    if error == CL_SUCCESS { Ok(()) } else { Err(format!("{what} failed with OpenCL's error {error}")) }
}

/// Owns one reference to something, given back by `release`.
struct Owned<R>(Handle, unsafe extern "C" fn(Handle) -> R);

impl<R> Drop for Owned<R> {
    fn drop(&mut self) { unsafe { (self.1)(self.0) }; }
}

/// Members are dropped in this order.
struct Rank { queue: Owned<c_int>, context: Owned<c_int>, device: Handle }

impl Rank {
    fn new(device: Handle) -> Result<Rank, String> {
        let mut error = CL_SUCCESS;
        let context = unsafe { clCreateContext(ptr::null(), 1, &device, ptr::null(), ptr::null_mut(), &mut error) };
        check_cl(error, "clCreateContext")?;
        let context = Owned(context, clReleaseContext);
        let queue = unsafe { clCreateCommandQueue(context.0, device, 0, &mut error) };
        check_cl(error, "clCreateCommandQueue")?;
        Ok(Rank { queue: Owned(queue, clReleaseCommandQueue), context, device })
    }
}

/// The last device of each platform; fewer than two are made up to two, for a device may be several ranks.
fn choose_devices() -> Result<Vec<Handle>, String> {
    let (mut platforms, mut chosen, mut found) = ([ptr::null_mut(); 16], Vec::new(), 0);
    check_cl(unsafe { clGetPlatformIDs(16, platforms.as_mut_ptr(), &mut found) }, "clGetPlatformIDs")?;
    for platform in &platforms[..(found as usize).min(16)] {
        let (mut devices, mut count) = ([ptr::null_mut(); 64], 0);
        let error = unsafe { clGetDeviceIDs(*platform, CL_DEVICE_TYPE_ALL, 64, devices.as_mut_ptr(), &mut count) };
        if error == CL_SUCCESS && count > 0 { chosen.push(devices[(count as usize).min(64) - 1]); }
    }
    let first = *chosen.first().ok_or("this machine has no OpenCL device")?;
    chosen.resize(2, first);
    Ok(chosen)
}

fn run() -> Result<(), String> {
    let ranks = choose_devices()?.into_iter().map(Rank::new).collect::<Result<Vec<_>, _>>()?;
    let handles: Vec<_> = ranks.iter()
        .map(|rank| RankHandles { context: rank.context.0, device: rank.device, queue: rank.queue.0 }).collect();
    let mut group = ptr::null_mut();
    check(unsafe { clq_group_create(handles.as_ptr(), handles.len() as c_uint, ptr::null(), &mut group) })?;
    let group = Owned(group, clq_group_destroy); // waits for calls under way, and releases what it retained

    let (bytes, mut slices) = (COUNT * mem::size_of::<f32>(), Vec::new());
    for (r, rank) in ranks.iter().enumerate() {
        let mut memory = ptr::null_mut(); // the group's, and ends with it
        check(unsafe { clq_group_alloc(group.0, r as c_uint, bytes, &mut memory) })?;
        let values: Vec<f32> = (0..COUNT).map(|i| (i % 7 + r) as f32).collect();
        check_cl(unsafe { clEnqueueWriteBuffer(rank.queue.0, memory, CL_TRUE, 0, bytes, values.as_ptr().cast(), 0,
                                               ptr::null(), ptr::null_mut()) }, "clEnqueueWriteBuffer")?;
        slices.push(Slice { memory, offset: 0 });
    }
    let mut done = vec![ptr::null_mut(); ranks.len()];
    check(unsafe { clq_all_reduce(group.0, slices.as_ptr(), slices.as_ptr(), COUNT, CLQ_F32, CLQ_REDOP_SUM, ptr::null(),
                                  done.as_mut_ptr()) })?;
    let done: Vec<_> = done.into_iter().map(|event| Owned(event, clReleaseEvent)).collect();
    for (r, rank) in ranks.iter().enumerate() {
        let mut sums = vec![0f32; COUNT];
        check_cl(unsafe { clEnqueueReadBuffer(rank.queue.0, slices[r].memory, CL_TRUE, 0, bytes, sums.as_mut_ptr().cast(),
                                              1, &done[r].0, ptr::null_mut()) }, "clEnqueueReadBuffer")?;
        match (0..COUNT).find(|&i| sums[i] != (2 * (i % 7) + 1) as f32) {
            Some(i) => return Err(format!("rank {r}: element {i} is {}", sums[i])),
            None => println!("rank {r} of {}: as it should be", ranks.len()),
        }
    }
    check(unsafe { clq_group_wait(group.0) })
}

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        process::exit(1);
    }
}

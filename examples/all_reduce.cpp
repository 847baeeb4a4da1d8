// Adds up one buffer per rank in C++: ranks in contexts of their own, of two vendors where the machine has them,
// between two kernels of the program's: the first writes what is added, the second goes on with the sum, and both are
// enqueued before anything has to be done. Meanwhile another kernel works on memory that the collective does not touch.
// g++ -std=c++11 all_reduce.cpp $(pkg-config --cflags --libs clique) -lOpenCL
#include <clique/comm.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

const std::size_t count = 1000000, items = 256;

void check(clq_status status) {
    if (status != CLQ_OK) throw std::runtime_error(std::string(clq_status_text(status)) + ": " + clq_error_detail());
}

void check_cl(cl_int error, const char *what) {
    if (error != CL_SUCCESS)
        throw std::runtime_error(std::string(what) + " failed with OpenCL's error " + std::to_string(error));
}

const char *const source = "kernel void fill(global float *a, float value, ulong n) {"
                           "    for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) a[i] = value + i % 7;"
                           "}"
                           "kernel void twice(global float *a, float unused, ulong n) {"
                           "    for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) a[i] *= 2;"
                           "}";

// All that a rank has of OpenCL's; released with it.
class Rank {
  public:
    Rank(cl_device_id device, float value) : rank_(), program_(), fill_(), twice_(), data_(), other_() {
        cl_int error;
        rank_.device = device;
        rank_.context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
        check_cl(error, "clCreateContext");
        rank_.queue = clCreateCommandQueue(rank_.context, device, 0, &error);
        check_cl(error, "clCreateCommandQueue");
        program_ = clCreateProgramWithSource(rank_.context, 1, const_cast<const char **>(&source), NULL, &error);
        check_cl(error, "clCreateProgramWithSource");
        check_cl(clBuildProgram(program_, 1, &device, "", NULL, NULL), "clBuildProgram");
        data_ = make_buffer();
        other_ = make_buffer();
        fill_ = make_kernel("fill", value);
        twice_ = make_kernel("twice", 0);
    }
    ~Rank() {
        if (fill_) clReleaseKernel(fill_);
        if (twice_) clReleaseKernel(twice_);
        if (data_) clReleaseMemObject(data_);
        if (other_) clReleaseMemObject(other_);
        if (program_) clReleaseProgram(program_);
        if (rank_.queue) clReleaseCommandQueue(rank_.queue);
        if (rank_.context) clReleaseContext(rank_.context);
    }
    Rank(const Rank &) = delete;
    Rank &operator=(const Rank &) = delete;

    clq_rank handles() const { return rank_; }
    clq_slice slice() const {
        clq_slice slice = {data_, 0};
        return slice;
    }
    // Enqueues, and does not wait.
    cl_event fill() { return launch(fill_, data_, NULL); }
    cl_event twice(cl_event after) { return launch(twice_, data_, after); }
    cl_event work_elsewhere() { return launch(fill_, other_, NULL); }
    // Waits for `after`.
    std::vector<float> read(cl_event after) const {
        std::vector<float> values(count);
        check_cl(
            clEnqueueReadBuffer(rank_.queue, data_, CL_TRUE, 0, count * sizeof(float), values.data(), 1, &after, NULL),
            "clEnqueueReadBuffer");
        return values;
    }

  private:
    cl_mem make_buffer() const {
        cl_int error;
        cl_mem buffer = clCreateBuffer(rank_.context, CL_MEM_READ_WRITE, count * sizeof(float), NULL, &error);
        check_cl(error, "clCreateBuffer");
        return buffer;
    }
    cl_kernel make_kernel(const char *name, float value) const {
        cl_int error;
        const cl_ulong n = count;
        cl_kernel kernel = clCreateKernel(program_, name, &error);
        check_cl(error, "clCreateKernel");
        check_cl(clSetKernelArg(kernel, 1, sizeof value, &value), "clSetKernelArg");
        check_cl(clSetKernelArg(kernel, 2, sizeof n, &n), "clSetKernelArg");
        return kernel;
    }
    cl_event launch(cl_kernel kernel, cl_mem memory, cl_event after) const {
        cl_event event;
        check_cl(clSetKernelArg(kernel, 0, sizeof memory, &memory), "clSetKernelArg");
        check_cl(clEnqueueNDRangeKernel(rank_.queue, kernel, 1, NULL, &items, NULL, after ? 1 : 0,
                                        after ? &after : NULL, &event),
                 "clEnqueueNDRangeKernel");
        check_cl(clFlush(rank_.queue), "clFlush");
        return event;
    }

    clq_rank rank_;
    cl_program program_;
    cl_kernel fill_, twice_;
    cl_mem data_, other_;
};

// The last device of each platform; where there is one platform, its last two.
std::vector<cl_device_id> choose_devices() {
    std::vector<cl_device_id> chosen, last;
    cl_uint platform_count = 0;
    if (clGetPlatformIDs(0, NULL, &platform_count) != CL_SUCCESS) return chosen;
    std::vector<cl_platform_id> platforms(platform_count);
    check_cl(clGetPlatformIDs(platform_count, platforms.data(), NULL), "clGetPlatformIDs");
    for (cl_platform_id platform : platforms) {
        cl_uint device_count = 0;
        if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &device_count) != CL_SUCCESS) continue;
        last.resize(device_count);
        check_cl(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, device_count, last.data(), NULL), "clGetDeviceIDs");
        chosen.push_back(last.back());
    }
    if (chosen.size() == 1 && last.size() > 1) chosen.push_back(last[last.size() - 2]);
    if (chosen.size() == 1) chosen.push_back(chosen[0]); // a device may be two ranks
    if (chosen.size() > CLQ_REPLICAS_MAX) chosen.resize(CLQ_REPLICAS_MAX);
    return chosen;
}

class Group {
  public:
    explicit Group(const std::vector<clq_rank> &ranks) : group_() {
        check(clq_group_create(ranks.data(), static_cast<unsigned>(ranks.size()), NULL, &group_));
    }
    ~Group() { clq_group_destroy(group_); }
    Group(const Group &) = delete;
    Group &operator=(const Group &) = delete;
    clq_group *get() const { return group_; }

  private:
    clq_group *group_;
};

bool is_right(const std::vector<float> &values, std::size_t ranks) {
    const float base = static_cast<float>(ranks * (ranks + 1) / 2);
    for (std::size_t i = 0; i < values.size(); i++)
        if (values[i] != 2 * (base + static_cast<float>(ranks * (i % 7)))) return false;
    return true;
}

void run() {
    const std::vector<cl_device_id> devices = choose_devices();
    if (devices.empty()) throw std::runtime_error("this machine has no OpenCL device");
    const std::size_t n = devices.size();
    std::vector<std::unique_ptr<Rank>> owned;
    std::vector<clq_rank> handles;
    std::vector<clq_slice> slices;
    for (std::size_t r = 0; r < n; r++) {
        owned.emplace_back(new Rank(devices[r], static_cast<float>(r + 1)));
        handles.push_back(owned[r]->handles());
        slices.push_back(owned[r]->slice());
    }
    Group group(handles);

    std::vector<cl_event> filled(n), reduced(n), elsewhere(n), doubled(n);
    for (std::size_t r = 0; r < n; r++) filled[r] = owned[r]->fill();
    check(clq_all_reduce(group.get(), slices.data(), slices.data(), count, CLQ_F32, CLQ_REDOP_SUM, filled.data(),
                         reduced.data()));
    for (std::size_t r = 0; r < n; r++) elsewhere[r] = owned[r]->work_elsewhere(); // while the sum travels
    for (std::size_t r = 0; r < n; r++) doubled[r] = owned[r]->twice(reduced[r]);
    bool right = true;
    for (std::size_t r = 0; r < n; r++) {
        bool mine = is_right(owned[r]->read(doubled[r]), n);
        std::printf("rank %zu of %zu: %s\n", r, n, mine ? "as it should be" : "WRONG");
        right = right && mine;
    }
    check(clq_group_wait(group.get()));
    for (std::size_t r = 0; r < n; r++)
        for (cl_event event : {filled[r], reduced[r], elsewhere[r], doubled[r]}) clReleaseEvent(event);
    if (!right) throw std::runtime_error("a sum is wrong");
}

} // namespace

int main() {
    try {
        run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}

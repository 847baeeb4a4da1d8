#include "support/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* What the kernel answers instead of doing its work. The library's calls come through the functions below. */
static struct {
    int read_error, write_error, sync_error, rename_error; /* errno, 0 for none */
    unsigned after;                                        /* calls that succeed before the fault */
    bool once, brief;                                      /* brief: reads and writes of 3 bytes at most */
} fault;

/* A letter for each call that writes, syncs or renames. */
static char calls[64];

static void note(char letter) {
    size_t length = strlen(calls);
    if (length + 1 < sizeof(calls)) calls[length] = letter;
}

static bool strikes(int error) {
    if (!error) return false;
    if (fault.after > 0) return fault.after--, false;
    errno = error;
    if (fault.once) fault.read_error = fault.write_error = fault.sync_error = fault.rename_error = 0;
    return true;
}

ssize_t pread(int fd, void *data, size_t bytes, off_t offset) {
    if (strikes(fault.read_error)) return -1;
    return syscall(SYS_pread64, fd, data, fault.brief && bytes > 3 ? 3 : bytes, offset);
}

ssize_t write(int fd, const void *data, size_t bytes) {
    note('w');
    if (strikes(fault.write_error)) return -1;
    return syscall(SYS_write, fd, data, fault.brief && bytes > 3 ? 3 : bytes);
}

int fsync(int fd) {
    note('s');
    return strikes(fault.sync_error) ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
    note('r');
    return strikes(fault.rename_error) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* A file that is replaced by another file of the same name just before the next lock. NULL: no file. */
static const char *replaced_before_lock;

int flock(int fd, int operation) {
    if (replaced_before_lock) {
        assert_int_equal(unlink(replaced_before_lock), 0);
        int other = open(replaced_before_lock, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert_true(other >= 0);
        close(other);
        replaced_before_lock = NULL;
    }
    return (int)syscall(SYS_flock, fd, operation);
}

static int heal(void **state) {
    (void)state;
    memset(&fault, 0, sizeof(fault));
    return 0;
}

/* ---- reading ---- */

static void reads_whole_files(void **state) {
    (void)state;
    void *data;
    size_t bytes;
    assert_ok(clq_file_read(files_put("a", "hello\0there", 11), 11, &data, &bytes));
    assert_int_equal(bytes, 11);
    assert_memory_equal(data, "hello\0there", 12); /* with the NUL that follows */
    assert_int_equal((uintptr_t)data % 64, 0);
    clq_free(data);
    assert_ok(clq_file_read(files_put("empty", "", 0), 0, &data, &bytes));
    assert_int_equal(bytes, 0);
    assert_string_equal(data, "");
    clq_free(data);
}

static void refuses_what_it_should(void **state) {
    (void)state;
    void *data = NULL;
    size_t bytes = 99;
    assert_fails(CLQ_ERROR_NOT_FOUND, "missing", clq_file_read(files_path("missing"), 100, &data, &bytes));
    files_put("a", "hello", 5);
    assert_fails(CLQ_ERROR_NOT_FOUND, "a/b", clq_file_read(files_path("a/b"), 100, &data, &bytes));
    assert_fails(CLQ_ERROR_FORMAT, "the most that is read here is 4", clq_file_read(files_path("a"), 4, &data, &bytes));
    assert_fails(CLQ_ERROR_READ, "not a regular file", clq_file_read(files_folder, 100, &data, &bytes));
    assert_fails(CLQ_ERROR_READ, "not a regular file", clq_file_read("/dev/zero", 100, &data, &bytes));
    assert_int_equal(mkfifo(files_path("pipe"), 0600), 0);
    assert_fails(CLQ_ERROR_READ, "not a regular file", clq_file_read(files_path("pipe"), 100, &data, &bytes));
    fault.read_error = EIO;
    assert_fails(CLQ_ERROR_READ, "offset 0", clq_file_read(files_path("a"), 100, &data, &bytes));
    fault.after = 1;
    fault.brief = true;
    assert_fails(CLQ_ERROR_READ, "offset 3", clq_file_read(files_path("a"), 100, &data, &bytes));
    assert_null(data);
    assert_int_equal(bytes, 99);
}

static void short_reads_and_interruptions(void **state) {
    (void)state;
    void *data;
    size_t bytes;
    files_put("a", "hello there", 11);
    for (unsigned after = 0; after < 4; after++) {
        fault.read_error = EINTR;
        fault.after = after;
        fault.once = fault.brief = true;
        assert_ok(clq_file_read(files_path("a"), 100, &data, &bytes));
        assert_int_equal(fault.read_error, 0); /* it did strike */
        assert_string_equal(data, "hello there");
        clq_free(data);
    }
}

static void folders(void **state) {
    (void)state;
    assert_ok(clq_make_folder(files_path("x/y/z")));
    assert_ok(clq_make_folder(files_path("x/y/z")));
    assert_ok(clq_make_folder(files_path("x//q/")));
    assert_ok(clq_make_folder("/"));
    assert_false(clq_file_exists(files_path("x/q")));
    files_put("x/q/f", "", 0);
    assert_true(clq_file_exists(files_path("x/q/f")));
    assert_false(clq_file_exists(files_path("x/q/g")));
    assert_fails(CLQ_ERROR_WRITE, "Not a directory", clq_make_folder(files_path("x/q/f")));
    assert_fails(CLQ_ERROR_WRITE, "x/q/f", clq_make_folder(files_path("x/q/f/g")));
    assert_fails(CLQ_ERROR_WRITE, "cannot make the folder", clq_make_folder(""));
}

/* ---- writing ---- */

/* Writes "new content" in two puts. */
static clq_status save(void *path) {
    clq_file_writer *writer;
    CLQ_TRY(clq_file_writer_open(path, &writer));
    clq_status status = clq_file_writer_put(writer, "new ", 4);
    if (status == CLQ_OK) status = clq_file_writer_put(writer, "content", 7);
    if (status == CLQ_OK) return clq_file_writer_commit(writer);
    clq_file_writer_cancel(writer);
    return status;
}

static void expect_content(const char *path, const char *expected) {
    size_t bytes;
    char *data = files_get(path, &bytes);
    assert_string_equal(data, expected);
    free(data);
}

static char *own_folder(const char *name) {
    static char folder[512];
    snprintf(folder, sizeof(folder), "%s", files_path(name));
    assert_ok(clq_make_folder(folder));
    return folder;
}

static char *within(const char *folder, const char *name) {
    static char path[600];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* The path of the one temporary file in a folder, which a writer has begun. */
static const char *only_temporary(const char *folder) {
    static char path[1024];
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    path[0] = '\0';
    for (struct dirent *entry; (entry = readdir(listing));)
        if (strncmp(entry->d_name, ".clique-", 8) == 0)
            snprintf(path, sizeof(path), "%.500s/%.500s", folder, entry->d_name);
    closedir(listing);
    assert_true(path[0] != '\0');
    return path;
}

static void appears_whole(void **state) {
    (void)state;
    char *folder = own_folder("whole"), *path = within(folder, "f");
    clq_file_writer *writer;
    assert_ok(clq_file_writer_open(path, &writer));
    assert_ok(clq_file_writer_put(writer, "first", 5));
    assert_ok(clq_file_writer_put(writer, NULL, 0));
    assert_false(clq_file_exists(path));
    assert_ok(clq_file_writer_commit(writer));
    expect_content(path, "first");
    mode_t mask = umask(0);
    umask(mask);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0666 & ~mask);
    assert_ok(clq_file_writer_open(path, &writer));
    assert_ok(clq_file_writer_put(writer, "second", 6));
    expect_content(path, "first");
    clq_file_writer_cancel(writer);
    expect_content(path, "first");
    assert_int_equal(files_count(folder), 1);
    fault.brief = true;
    assert_ok(save(path));
    fault.brief = false;
    expect_content(path, "new content");
    assert_int_equal(files_count(folder), 1);
    clq_file_writer_cancel(NULL);
}

static void survives_a_crash(void **state) {
    (void)state;
    memset(calls, 0, sizeof(calls));
    assert_ok(save(within(own_folder("crash"), "f")));
    assert_string_equal(calls, "wwsrs"); /* the content is synced before the rename, and the folder after it */
}

static void two_writers_at_once(void **state) {
    (void)state;
    char *folder = own_folder("two"), *path = within(folder, "f");
    clq_file_writer *one, *two;
    assert_ok(clq_file_writer_open(path, &one));
    assert_ok(clq_file_writer_open(path, &two));
    assert_ok(clq_file_writer_put(one, "one", 3));
    assert_ok(clq_file_writer_put(two, "two", 3));
    assert_ok(clq_file_writer_commit(one));
    expect_content(path, "one");
    assert_ok(clq_file_writer_commit(two));
    expect_content(path, "two");
    assert_int_equal(files_count(folder), 1);
}

/* For every call that the kernel may refuse: the old file stays, and no other file is left. */
static void faults_leave_the_old_file(void **state) {
    (void)state;
    static const struct {
        int write, sync, rename;
        unsigned after;
        const char *says;
    } cases[] = {
        {ENOSPC, 0, 0, 0, "No space left"}, {ENOSPC, 0, 0, 1, "No space left"}, {EIO, 0, 0, 0, "cannot write"},
        {EDQUOT, 0, 0, 1, "cannot write"},  {0, EIO, 0, 0, "cannot sync"},      {0, 0, EACCES, 0, "in place"},
    };
    char *folder = own_folder("faults"), *path = within(folder, "f");
    files_put("faults/f", "old", 3);
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        fault.write_error = cases[i].write;
        fault.sync_error = cases[i].sync;
        fault.rename_error = cases[i].rename;
        fault.after = cases[i].after;
        assert_fails(CLQ_ERROR_WRITE, cases[i].says, save(path));
        assert_non_null(strstr(clq_error_detail(), "faults/f"));
        heal(NULL);
        expect_content(path, "old");
        assert_int_equal(files_count(folder), 1);
    }
    fault.sync_error = EIO; /* of the folder, when the file is in place */
    fault.after = 1;
    assert_fails(CLQ_ERROR_WRITE, "cannot sync", save(path));
    heal(NULL);
    expect_content(path, "new content");
    for (int i = 0; i < 2; i++) {
        fault.write_error = i ? 0 : EINTR;
        fault.sync_error = i ? EINTR : 0;
        fault.once = true;
        assert_ok(save(path));
    }
    assert_int_equal(files_count(folder), 1);
}

static void a_failed_put_is_remembered(void **state) {
    (void)state;
    char *folder = own_folder("latched");
    clq_file_writer *writer;
    assert_ok(clq_file_writer_open(within(folder, "f"), &writer));
    fault.write_error = ENOSPC;
    fault.once = true;
    assert_fails(CLQ_ERROR_WRITE, "No space", clq_file_writer_put(writer, "abc", 3));
    clq_fail(CLQ_ERROR_ARGUMENT, "something else");
    assert_fails(CLQ_ERROR_WRITE, "No space", clq_file_writer_put(writer, "def", 3));
    clq_fail(CLQ_ERROR_ARGUMENT, "something else");
    assert_fails(CLQ_ERROR_WRITE, "No space", clq_file_writer_commit(writer));
    assert_int_equal(files_count(folder), 0);
}

static void a_real_limit(void **state) {
    (void)state;
    char *folder = own_folder("limit");
    struct rlimit before, limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 6;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    clq_status status = save(within(folder, "f"));
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, CLQ_ERROR_WRITE);
    assert_int_equal(files_count(folder), 0);
}

static void targets(void **state) {
    (void)state;
    char *folder = own_folder("targets");
    clq_file_writer *writer = NULL;
    assert_fails(CLQ_ERROR_WRITE, "no-such", clq_file_writer_open(within(folder, "no-such/f"), &writer));
    assert_fails(CLQ_ERROR_WRITE, "not a regular file", clq_file_writer_open(folder, &writer));
    assert_fails(CLQ_ERROR_WRITE, "not a regular file", clq_file_writer_open("/dev/null", &writer));
    assert_fails(CLQ_ERROR_WRITE, "names no file", clq_file_writer_open("", &writer));
    assert_fails(CLQ_ERROR_WRITE, "names no file", clq_file_writer_open(within(folder, "no-such/"), &writer));
    assert_null(writer);
    /* A symbolic link stays. The file that it points to is replaced. */
    files_put("targets/real", "old", 3);
    assert_int_equal(symlink("real", files_path("targets/link")), 0);
    assert_ok(save(within(folder, "link")));
    struct stat info;
    assert_int_equal(lstat(files_path("targets/link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    expect_content(files_path("targets/real"), "new content");
    /* The longest name that a file can have, and a path without a folder. */
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    assert_ok(save(within(folder, name)));
    assert_int_equal(chdir(folder), 0);
    assert_ok(save((char[]){"here"}));
    expect_content(files_path("targets/here"), "new content");
    assert_int_equal(files_count(folder), 4);
}

static void permissions_stay(void **state) {
    (void)state;
    static const mode_t modes[] = {0600, 0640, 0644, 0664, 0444, 0400};
    char *folder = own_folder("permissions"), *path = within(folder, "f");
    files_put("permissions/f", "old", 3);
    for (size_t i = 0; i < CLQ_COUNT_OF(modes); i++) {
        struct stat info, meanwhile;
        clq_file_writer *writer;
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_ok(clq_file_writer_open(path, &writer));
        assert_ok(clq_file_writer_put(writer, "secret", 6));
        assert_int_equal(stat(only_temporary(folder), &meanwhile), 0);
        assert_int_equal(meanwhile.st_mode & 0077, 0); /* private until it has its permissions */
        assert_ok(clq_file_writer_commit(writer));
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 07777, modes[i]);
    }
}

static void links_stay(void **state) {
    (void)state;
    struct stat info;
    char *folder = own_folder("links");
    assert_ok(clq_make_folder(files_path("links/inner")));
    assert_int_equal(symlink("inner/to", files_path("links/first")), 0); /* a link to a link to no file */
    assert_int_equal(symlink("../missing", files_path("links/inner/to")), 0);
    assert_ok(save(within(folder, "first")));
    assert_int_equal(lstat(files_path("links/first"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(lstat(files_path("links/inner/to"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(lstat(files_path("links/missing"), &info), 0);
    assert_true(S_ISREG(info.st_mode));
    expect_content(files_path("links/missing"), "new content");
    assert_int_equal(symlink(files_path("links/absolute"), files_path("links/second")), 0);
    assert_ok(save(within(folder, "second")));
    expect_content(files_path("links/absolute"), "new content");
    assert_int_equal(symlink("no-folder/f", files_path("links/nowhere")), 0);
    assert_fails(CLQ_ERROR_WRITE, "links/no-folder", save(within(folder, "nowhere")));
    assert_int_equal(symlink("circle", files_path("links/circle")), 0);
    assert_fails(CLQ_ERROR_WRITE, "links/circle", save(within(folder, "circle")));
    assert_int_equal(lstat(files_path("links/circle"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(files_count(folder), 7);
}

/* Makes the file look as if its last write was an hour ago. */
static void age(const char *path) {
    struct timespec times[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void age_temporaries(const char *folder) {
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));)
        if (strncmp(entry->d_name, ".clique-", 8) == 0) age(within(folder, entry->d_name));
    closedir(listing);
}

/* A process is killed between two puts. */
static void leave_temporary(const char *path) {
    pid_t child = fork();
    if (child == 0) {
        clq_file_writer *writer;
        if (clq_file_writer_open(path, &writer) == CLQ_OK && clq_file_writer_put(writer, "half", 4) == CLQ_OK)
            raise(SIGKILL);
        _exit(1);
    }
    int end;
    assert_int_equal(waitpid(child, &end, 0), child);
    assert_true(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL);
}

static void what_a_killed_writer_leaves_is_removed(void **state) {
    (void)state;
    char *folder = own_folder("killed"), path[600];
    snprintf(path, sizeof(path), "%s/f", folder);
    files_put("killed/.clique-notes", "", 0); /* not a name that writers make */
    files_put("killed/.clique-1-2.part.gz", "", 0);
    leave_temporary(path);
    leave_temporary(path);
    assert_int_equal(files_count(folder), 4); /* files that were written just now stay */
    age_temporaries(folder);
    clq_file_writer *alive;
    assert_ok(clq_file_writer_open(files_path("killed/other"), &alive));
    assert_int_equal(files_count(folder), 3);
    age_temporaries(folder);
    assert_ok(save(path)); /* a file that a living writer has begun stays, too */
    assert_ok(clq_file_writer_put(alive, "abc", 3));
    assert_ok(clq_file_writer_commit(alive));
    expect_content(files_path("killed/other"), "abc");
    assert_int_equal(files_count(folder), 4);
}

/* Another process has removed the leftover file, and a writer with the same number has begun a new file of this
 * name. */
static void a_new_file_of_the_name_stays(void **state) {
    (void)state;
    char *folder = own_folder("renewed"), left[600];
    snprintf(left, sizeof(left), "%s", files_put("renewed/.clique-1-2.part", "", 0));
    age(left);
    replaced_before_lock = left;
    assert_ok(save(within(folder, "f")));
    assert_null(replaced_before_lock);
    assert_int_equal(files_count(folder), 2);
    age(left);
    assert_ok(save(within(folder, "f")));
    assert_int_equal(files_count(folder), 1);
}

/* A process with the same number on another machine has files of these names, and still writes them. */
static void a_taken_name_is_no_obstacle(void **state) {
    (void)state;
    char *folder = own_folder("taken");
    clq_file_writer *writer;
    assert_ok(clq_file_writer_open(within(folder, "f"), &writer));
    unsigned last;
    assert_int_equal(sscanf(strrchr(only_temporary(folder), '-'), "-%u.part", &last), 1);
    clq_file_writer_cancel(writer);
    int held[60];
    for (unsigned i = 0; i < CLQ_COUNT_OF(held); i++) { /* the names that this process would use next */
        char name[64];
        snprintf(name, sizeof(name), "taken/.clique-%ld-%u.part", (long)getpid(), last + 1 + i);
        held[i] = open(files_put(name, "", 0), O_WRONLY);
        assert_true(held[i] >= 0);
        assert_int_equal(flock(held[i], LOCK_EX | LOCK_NB), 0);
    }
    assert_ok(save(within(folder, "f")));
    assert_int_equal(files_count(folder), 61);
    for (unsigned i = 0; i < CLQ_COUNT_OF(held); i++) close(held[i]);
    age_temporaries(folder);
    assert_ok(save(within(folder, "f")));
    assert_int_equal(files_count(folder), 1);
}

static clq_status read_back(void *path) {
    void *data = NULL;
    size_t bytes;
    clq_status status = clq_file_read(path, 100, &data, &bytes);
    assert_int_equal(data != NULL, status == CLQ_OK);
    clq_free(data);
    return status;
}

static void without_memory(void **state) {
    (void)state;
    char *folder = own_folder("memory"), *path = within(folder, "f");
    assert_true(walk_allocations(save, path) >= 4);
    assert_int_equal(files_count(folder), 1);
    assert_int_equal(walk_allocations(read_back, path), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_whole_files),
        cmocka_unit_test_teardown(refuses_what_it_should, heal),
        cmocka_unit_test_teardown(short_reads_and_interruptions, heal),
        cmocka_unit_test(folders),
        cmocka_unit_test_teardown(appears_whole, heal),
        cmocka_unit_test(survives_a_crash),
        cmocka_unit_test(two_writers_at_once),
        cmocka_unit_test_teardown(faults_leave_the_old_file, heal),
        cmocka_unit_test_teardown(a_failed_put_is_remembered, heal),
        cmocka_unit_test(a_real_limit),
        cmocka_unit_test(targets),
        cmocka_unit_test(permissions_stay),
        cmocka_unit_test(links_stay),
        cmocka_unit_test(what_a_killed_writer_leaves_is_removed),
        cmocka_unit_test(a_new_file_of_the_name_stays),
        cmocka_unit_test(a_taken_name_is_no_obstacle),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}

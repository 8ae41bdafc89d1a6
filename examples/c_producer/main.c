/* Produces tensors that Rust consumes, and counts the calls of their deleters. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats.h"

#define CHECK(condition)                                                         \
  do {                                                                           \
    if (!(condition)) {                                                          \
      fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition);    \
      exit(EXIT_FAILURE);                                                        \
    }                                                                            \
  } while (0)

#define MAX_NDIM 3
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

#define INT32 {kDLInt, 32, 1}
#define FLOAT16 {kDLFloat, 16, 1}
#define FLOAT32 {kDLFloat, 32, 1}
#define FLOAT64 {kDLFloat, 64, 1}

/* Every tensor here is over memory with the numbers 0 to 5. */
#define NUMBERS 6

/* --- Every producer needs this ------------------------------------------------------------ */

/* Records the deleter call of a tensor. The program reads it afterwards, so the deleter does not free it. */
typedef struct {
  atomic_int deleted;
  pthread_t deleted_by;
} receipt;

/* Everything that an exported tensor points to, except the elements, in one allocation. `manager_ctx`
 * points from the managed tensor to it. */
typedef struct {
  union {
    struct DLManagedTensorVersioned versioned;
    DLManagedTensor legacy;
  } managed;
  int64_t shape[MAX_NDIM];
  int64_t strides[MAX_NDIM];
  void *memory;
  receipt *receipt;
} exported_tensor;

/* The consumer calls this once, on any thread. So it must not rely on thread-local state, and must lock
 * data that other threads use. */
static void free_exported(exported_tensor *exported) {
  exported->receipt->deleted_by = pthread_self();
  atomic_fetch_add(&exported->receipt->deleted, 1);
  free(exported->memory);
  free(exported);
}

static void delete_versioned(struct DLManagedTensorVersioned *self) { free_exported(self->manager_ctx); }
static void delete_legacy(DLManagedTensor *self) { free_exported(self->manager_ctx); }

/* --- The tensors of this program --------------------------------------------------------- */

typedef struct {
  const char *name;
  DLDataType dtype;
  int32_t ndim;
  int64_t shape[MAX_NDIM];
  int64_t strides[MAX_NDIM]; /* in elements */
  int64_t origin;            /* the number at index zero, given by the address `data`, */
  uint64_t byte_offset;      /* or by this offset, in bytes from `data` */
  bool null_shape, null_strides, null_data;
  DLDeviceType device; /* 0 is the CPU here */
  double sum;          /* the sum that stats must return, */
  stats_status status; /* or the status of its refusal */
} example;

static const example ACCEPTED[] = {
    {"matrix", FLOAT32, 2, {2, 3}, {3, 1}, .sum = 15},
    {"transposed", INT32, 2, {3, 2}, {1, 3}, .sum = 15},
    {"backwards, every second", FLOAT64, 1, {3}, {-2}, .origin = 5, .sum = 5 + 3 + 1},
    {"one row, four times", FLOAT32, 2, {4, 3}, {0, 1}, .sum = 4 * (0 + 1 + 2)},
    {"byte offset", FLOAT32, 1, {4}, {1}, .byte_offset = 8, .sum = 2 + 3 + 4 + 5},
    /* Up to DLPack 1.1, NULL strides mean C order. */
    {"NULL strides", FLOAT32, 2, {2, 3}, .null_strides = true, .sum = 15},
    {"one number", INT32, 0, .origin = 4, .null_shape = true, .null_strides = true, .sum = 4},
    {"no elements", FLOAT32, 2, {0, 3}, {3, 1}, .null_data = true, .sum = 0},
};

static const example REFUSED[] = {
    {"ndim -1", FLOAT32, -1, {6}, {1}, .status = STATS_INVALID},
    {"ndim 2147483647", FLOAT32, INT32_MAX, {6}, {1}, .status = STATS_INVALID},
    {"negative extent", FLOAT32, 1, {-6}, {1}, .status = STATS_INVALID},
    {"too many elements", FLOAT32, 2, {INT64_MAX, INT64_MAX}, {1, 1}, .status = STATS_INVALID},
    {"NULL shape", FLOAT32, 1, .null_shape = true, .status = STATS_INVALID},
    {"NULL data", FLOAT32, 1, {6}, {1}, .null_data = true, .status = STATS_INVALID},
    {"misaligned", FLOAT32, 1, {2}, {1}, .byte_offset = 1, .status = STATS_INVALID},
    {"float16", FLOAT16, 1, {6}, {1}, .status = STATS_DTYPE},
    {"on a GPU", FLOAT32, 1, {6}, {1}, .device = kDLCUDA, .status = STATS_DEVICE},
};

static void *allocate(size_t bytes) {
  /* DLPack requires an alignment of 256 bytes, and C a size that is a multiple of it. */
  void *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
  CHECK(memory);
  return memory;
}

static void *numbers(DLDataType dtype) {
  void *memory = allocate(NUMBERS * 8);
  for (int i = 0; i < NUMBERS; i++) {
    if (dtype.code == kDLInt) ((int32_t *)memory)[i] = i;
    else if (dtype.bits == 32) ((float *)memory)[i] = (float)i;
    else if (dtype.bits == 64) ((double *)memory)[i] = i;
    else ((uint16_t *)memory)[i] = 0; /* C11 has no float16 */
  }
  return memory;
}

/* Allocates the memory, and describes it in *t. */
static exported_tensor *prepare(const example *e, receipt *receipt, DLTensor *t) {
  exported_tensor *exported = malloc(sizeof *exported);
  CHECK(exported);
  exported->receipt = receipt;
  exported->memory = e->null_data ? NULL : numbers(e->dtype);
  memcpy(exported->shape, e->shape, sizeof exported->shape);
  memcpy(exported->strides, e->strides, sizeof exported->strides);
  *t = (DLTensor){
      .data = exported->memory ? (char *)exported->memory + e->origin * (e->dtype.bits / 8) : NULL,
      .device = {e->device ? e->device : kDLCPU, 0},
      .ndim = e->ndim,
      .dtype = e->dtype,
      .shape = e->null_shape ? NULL : exported->shape,
      .strides = e->null_strides ? NULL : exported->strides,
      .byte_offset = e->byte_offset,
  };
  return exported;
}

/* Returns a managed tensor for a consumer; its deleter, called once, frees everything. */
static struct DLManagedTensorVersioned *export_tensor(const example *e, receipt *receipt) {
  DLTensor t;
  exported_tensor *exported = prepare(e, receipt, &t);
  exported->managed.versioned = (struct DLManagedTensorVersioned){
      .version = {DLPACK_MAJOR_VERSION, e->null_strides ? 1 : DLPACK_MINOR_VERSION},
      .manager_ctx = exported,
      .deleter = delete_versioned,
      .flags = DLPACK_FLAG_BITMASK_READ_ONLY, /* stats only reads; other consumers may write */
      .dl_tensor = t,
  };
  return &exported->managed.versioned;
}

static DLManagedTensor *export_legacy(const example *e, receipt *receipt) {
  DLTensor t;
  exported_tensor *exported = prepare(e, receipt, &t);
  exported->managed.legacy =
      (DLManagedTensor){.dl_tensor = t, .manager_ctx = exported, .deleter = delete_legacy};
  return &exported->managed.legacy;
}

/* --- Calls of the library in this program ------------------------------------------------- */

/* Every call ends with one call of the deleter, here on the same thread. */
static void check_deleted_here(receipt *receipt) {
  CHECK(atomic_load(&receipt->deleted) == 1);
  CHECK(pthread_equal(receipt->deleted_by, pthread_self()));
}

static void accepted(const example *e) {
  double sum = -1;
  stats_message message;
  receipt versioned = {0}, legacy = {0};
  CHECK(stats_sum(export_tensor(e, &versioned), &sum, &message) == STATS_OK);
  check_deleted_here(&versioned);
  CHECK(sum == e->sum);
  sum = -1;
  CHECK(stats_sum_legacy(export_legacy(e, &legacy), &sum, &message) == STATS_OK);
  check_deleted_here(&legacy);
  CHECK(sum == e->sum);
  printf("%-24s sum %g\n", e->name, sum);
}

static void refused(const example *e) {
  double sum = -1;
  stats_message message, same;
  receipt versioned = {0}, legacy = {0};
  CHECK(stats_sum(export_tensor(e, &versioned), &sum, &message) == e->status);
  check_deleted_here(&versioned);
  CHECK(stats_sum_legacy(export_legacy(e, &legacy), &sum, &same) == e->status);
  check_deleted_here(&legacy);
  CHECK(sum == -1);
  printf("%-24s refused: %s\n", e->name, message.text);
}

/* With another major version, a consumer knows only the first fields; the others hold garbage. */
static void another_version(void) {
  receipt receipt = {0};
  struct DLManagedTensorVersioned *managed = export_tensor(&ACCEPTED[0], &receipt);
  managed->version = (DLPackVersion){DLPACK_MAJOR_VERSION + 1, 0};
  memset(&managed->dl_tensor, 0xff, sizeof managed->dl_tensor);
  double sum;
  stats_message message;
  CHECK(stats_sum(managed, &sum, &message) == STATS_VERSION);
  check_deleted_here(&receipt);
  printf("%-24s refused: %s\n", "another version", message.text);
}

/* Memory that lasts as long as the program needs no deleter. */
static void without_deleter(void) {
  static float data[] = {1, 2, 3};
  static int64_t shape[] = {3}, strides[] = {1};
  static struct DLManagedTensorVersioned managed = {
      .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
      .flags = DLPACK_FLAG_BITMASK_READ_ONLY,
      .dl_tensor = {data, {kDLCPU, 0}, 1, FLOAT32, shape, strides, 0},
  };
  double sum = -1;
  CHECK(stats_sum(&managed, &sum, NULL) == STATS_OK && sum == 6);
  printf("%-24s sum %g\n", "no deleter", sum);
}

/* Rust keeps the tensor, and drops it on its own thread. */
static void job(void) {
  double sum = -1;
  stats_message message;
  stats_job *job = NULL;
  receipt receipt = {0};
  CHECK(stats_start(export_tensor(&ACCEPTED[0], &receipt), &job, &message) == STATS_OK);
  CHECK(stats_finish(job, &sum, &message) == STATS_OK);
  CHECK(sum == 15);
  CHECK(atomic_load(&receipt.deleted) == 1);
  CHECK(!pthread_equal(receipt.deleted_by, pthread_self()));
  printf("%-24s sum %g, deleted on another thread\n", "job", sum);
}

/* Jobs that stats_start refuses, or only the thread. */
static void refused_jobs(void) {
  double sum = -1;
  stats_message message;
  stats_job *job = NULL;
  receipt at_start = {0}, on_thread = {0};
  const example bad_ndim = {.dtype = FLOAT32, .ndim = -1}, half = {.dtype = FLOAT16, .ndim = 0};
  CHECK(stats_start(export_tensor(&bad_ndim, &at_start), &job, &message) == STATS_INVALID && !job);
  check_deleted_here(&at_start);
  CHECK(stats_start(export_tensor(&half, &on_thread), &job, &message) == STATS_OK);
  CHECK(stats_finish(job, &sum, &message) == STATS_DTYPE && sum == -1);
  CHECK(atomic_load(&on_thread.deleted) == 1);
}

/* The tensor is deleted even if another argument is wrong. */
static void missing_arguments(void) {
  double sum;
  stats_message message;
  receipt first = {0}, second = {0}, third = {0};
  CHECK(stats_sum(NULL, &sum, &message) == STATS_INVALID);
  CHECK(stats_sum_legacy(NULL, &sum, NULL) == STATS_INVALID);
  CHECK(stats_finish(NULL, &sum, &message) == STATS_USAGE);
  CHECK(stats_sum(export_tensor(&ACCEPTED[0], &first), NULL, &message) == STATS_USAGE);
  check_deleted_here(&first);
  CHECK(stats_sum_legacy(export_legacy(&ACCEPTED[0], &second), NULL, NULL) == STATS_USAGE);
  check_deleted_here(&second);
  CHECK(stats_start(export_tensor(&ACCEPTED[0], &third), NULL, &message) == STATS_USAGE);
  check_deleted_here(&third);
  printf("%-24s refused: %s\n", "no place for the job", message.text);
}

int main(void) {
  for (size_t i = 0; i < LENGTH(ACCEPTED); i++) accepted(&ACCEPTED[i]);
  for (size_t i = 0; i < LENGTH(REFUSED); i++) refused(&REFUSED[i]);
  another_version();
  without_deleter();
  job();
  refused_jobs();
  missing_arguments();
  return EXIT_SUCCESS;
}

/* Consumes tensors that Rust produces: checks them, walks them, writes them, and calls their deleters. */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "camera.h"

#define CHECK(condition)                                                         \
  do {                                                                           \
    if (!(condition)) {                                                          \
      fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition);    \
      exit(EXIT_FAILURE);                                                        \
    }                                                                            \
  } while (0)

#define MAX_NDIM 8

static const DLDataType UINT8 = {kDLUInt, 8, 1};
static const DLDataType FLOAT32 = {kDLFloat, 32, 1};

/* --- Every consumer needs this ------------------------------------------------------------ */

/* Calls the deleter. It is NULL if the producer has nothing to free. */
static void release(struct DLManagedTensorVersioned *managed) {
  if (managed->deleter) managed->deleter(managed);
}

static void release_legacy(DLManagedTensor *managed) {
  if (managed->deleter) managed->deleter(managed);
}

/* Returns whether this program can use the tensor: of a dtype, on the CPU. */
static bool usable(const DLTensor *t, DLDataType dtype) {
  return t->device.device_type == kDLCPU && t->ndim <= MAX_NDIM && t->dtype.code == dtype.code &&
         t->dtype.bits == dtype.bits && t->dtype.lanes == dtype.lanes;
}

/* The same for a managed tensor. It reads the version first: with another major version, a consumer may
 * only call the deleter. */
static bool usable_managed(const struct DLManagedTensorVersioned *managed, DLDataType dtype) {
  return managed->version.major == DLPACK_MAJOR_VERSION && usable(&managed->dl_tensor, dtype);
}

static bool writable(const struct DLManagedTensorVersioned *managed) {
  return !(managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
}

/* Returns the address of the element at an index. Strides count elements, and may be negative. */
static void *at(const DLTensor *t, const int64_t *index) {
  int64_t element = 0;
  for (int32_t axis = 0; axis < t->ndim; axis++) element += index[axis] * t->strides[axis];
  return (char *)t->data + t->byte_offset + element * (t->dtype.bits * t->dtype.lanes / 8);
}

/* Sets the first index; returns false for an empty tensor. */
static bool first(const DLTensor *t, int64_t *index) {
  bool some = true;
  for (int32_t axis = 0; axis < t->ndim; axis++) {
    index[axis] = 0;
    some = some && t->shape[axis] > 0;
  }
  return some;
}

/* Sets the next index, the last axis fastest; returns false after the last one. */
static bool next(const DLTensor *t, int64_t *index) {
  for (int32_t axis = t->ndim - 1; axis >= 0; axis--) {
    if (++index[axis] < t->shape[axis]) return true;
    index[axis] = 0;
  }
  return false;
}

static double sum(const DLTensor *t) {
  double total = 0;
  int64_t index[MAX_NDIM];
  for (bool more = first(t, index); more; more = next(t, index)) {
    const void *element = at(t, index);
    total += t->dtype.code == kDLFloat ? *(const float *)element : *(const uint8_t *)element;
  }
  return total;
}

/* --- Uses of the tensors in this program -------------------------------------------------- */

static void show_dims(const char *name, const int64_t *dims, int32_t ndim) {
  printf("%s (", name);
  for (int32_t axis = 0; axis < ndim; axis++) printf("%s%" PRId64, axis ? ", " : "", dims[axis]);
  printf(") ");
}

static void show(const char *name, const DLTensor *t) {
  printf("%-14s", name);
  show_dims("shape", t->shape, t->ndim);
  show_dims("strides", t->strides, t->ndim);
  printf("sum %.2f\n", sum(t));
}

static void *release_on_thread(void *managed) {
  release(managed);
  return NULL;
}

/* Releases on another thread, as a consumer with a thread pool would. */
static void release_elsewhere(struct DLManagedTensorVersioned *managed) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, release_on_thread, managed) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

/* A picture that only this program uses: written in place, released on another thread. */
static void frame(void) {
  struct DLManagedTensorVersioned *managed = NULL;
  CHECK(camera_frame(2, 4, &managed) == CAMERA_OK);
  CHECK(usable_managed(managed, UINT8) && writable(managed));
  CHECK(managed->flags & DLPACK_FLAG_BITMASK_IS_COPIED);
  const DLTensor *t = &managed->dl_tensor;
  show("frame", t);
  CHECK(t->ndim == 3 && t->shape[0] == 2 && t->shape[1] == 4 && t->shape[2] == 3);
  CHECK(sum(t) == 23 * 24 / 2);

  int64_t index[MAX_NDIM];
  for (bool more = first(t, index); more; more = next(t, index)) *(uint8_t *)at(t, index) += 10;
  show("brighter", t);
  CHECK(sum(t) == 23 * 24 / 2 + 24 * 10);

  CHECK(camera_frames_alive() == 1);
  release_elsewhere(managed);
  CHECK(camera_frames_alive() == 0);
}

/* A kernel that takes a DLTensor, as C libraries do. */
static void brighten(DLTensor *t) {
  int64_t index[MAX_NDIM];
  for (bool more = first(t, index); more; more = next(t, index)) *(uint8_t *)at(t, index) += 10;
}

/* Rust passes it a borrowed picture during the call. */
static void frame_filtered(void) {
  struct DLManagedTensorVersioned *managed = NULL;
  CHECK(camera_frame_filtered(2, 4, brighten, &managed) == CAMERA_OK);
  CHECK(usable_managed(managed, UINT8));
  show("filtered", &managed->dl_tensor);
  CHECK(sum(&managed->dl_tensor) == 23 * 24 / 2 + 24 * 10);
  release(managed);
  CHECK(camera_frames_alive() == 0);
}

/* A negative stride: `data` is the last row in memory, and index zero. */
static void frame_upside_down(void) {
  struct DLManagedTensorVersioned *managed = NULL;
  CHECK(camera_frame_upside_down(2, 4, &managed) == CAMERA_OK);
  CHECK(usable_managed(managed, UINT8));
  const DLTensor *t = &managed->dl_tensor;
  show("upside down", t);
  CHECK(t->strides[0] == -12 && sum(t) == 23 * 24 / 2);
  CHECK(*(uint8_t *)at(t, (int64_t[]){0, 0, 0}) == 12);
  CHECK(*(uint8_t *)at(t, (int64_t[]){1, 3, 2}) == 11);
  release(managed);
  CHECK(camera_frames_alive() == 0);
}

/* No elements: `data` is NULL, and must not be dereferenced. */
static void frame_without_rows(void) {
  struct DLManagedTensorVersioned *managed = NULL;
  CHECK(camera_frame(0, 4, &managed) == CAMERA_OK);
  CHECK(usable_managed(managed, UINT8));
  show("no rows", &managed->dl_tensor);
  CHECK(managed->dl_tensor.data == NULL && sum(&managed->dl_tensor) == 0);
  release(managed);
  CHECK(camera_frames_alive() == 0);
}

/* One picture, two consumers: it lives until both have released it. */
static void frame_for_two(void) {
  struct DLManagedTensorVersioned *both[2];
  CHECK(camera_frame_for_two(2, 4, &both) == CAMERA_OK);
  CHECK(both[0]->dl_tensor.data == both[1]->dl_tensor.data);
  CHECK(!writable(both[0]) && !writable(both[1]));
  CHECK(camera_frames_alive() == 1);
  release_elsewhere(both[0]);
  CHECK(camera_frames_alive() == 1);
  CHECK(usable_managed(both[1], UINT8));
  show("second of two", &both[1]->dl_tensor);
  CHECK(sum(&both[1]->dl_tensor) == 23 * 24 / 2);
  release(both[1]);
  CHECK(camera_frames_alive() == 0);
}

/* A constant of the Rust library. Writing it would end the program: it is in read-only memory. */
static void gamma_table(void) {
  struct DLManagedTensorVersioned *managed = NULL;
  CHECK(camera_gamma_table(&managed) == CAMERA_OK);
  CHECK(usable_managed(managed, FLOAT32) && !writable(managed));
  const DLTensor *t = &managed->dl_tensor;
  show("gamma", t);
  CHECK(*(float *)at(t, (int64_t[]){0}) == 0.0f && *(float *)at(t, (int64_t[]){255}) == 1.0f);
  release(managed);
}

/* The struct from before DLPack 1.0 has neither version nor flags. */
static void frame_legacy(void) {
  DLManagedTensor *managed = NULL;
  CHECK(camera_frame_legacy(2, 4, &managed) == CAMERA_OK);
  CHECK(usable(&managed->dl_tensor, UINT8));
  show("legacy", &managed->dl_tensor);
  CHECK(sum(&managed->dl_tensor) == 23 * 24 / 2);
  release_legacy(managed);
  CHECK(camera_frames_alive() == 0);
}

/* Requests that the library refuses, and why. */
static void refusals(void) {
  DLManagedTensor *legacy = NULL;
  camera_status status = camera_gamma_table_legacy(&legacy);
  CHECK(status == CAMERA_READ_ONLY && legacy == NULL);
  printf("refused: %s\n", camera_message(status));

  struct DLManagedTensorVersioned *managed = NULL;
  status = camera_frame(UINT32_MAX, UINT32_MAX, &managed);
  CHECK(status == CAMERA_NO_MEMORY && managed == NULL);
  printf("refused: %s\n", camera_message(status));

  status = camera_frame(2, 4, NULL);
  CHECK(status == CAMERA_NO_OUTPUT);
  printf("refused: %s\n", camera_message(status));
  CHECK(camera_frames_alive() == 0);
}

int main(void) {
  frame();
  frame_filtered();
  frame_upside_down();
  frame_without_rows();
  frame_for_two();
  gamma_table();
  frame_legacy();
  refusals();
  return EXIT_SUCCESS;
}

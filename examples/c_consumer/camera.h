/* A camera written in Rust, which exports its pictures to C.
 *
 * The caller owns each result that a function stores in *out, and must call its deleter once, on any
 * thread. A function that does not return CAMERA_OK leaves *out unchanged. All functions may be called
 * on any thread. */
#ifndef CAMERA_H_
#define CAMERA_H_

#include <dlpack/dlpack.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  CAMERA_OK = 0,
  CAMERA_NO_OUTPUT = 1, /* out is NULL */
  CAMERA_NO_MEMORY = 2, /* not enough memory for the picture */
  CAMERA_READ_ONLY = 3, /* the legacy struct has no flag for read-only data */
  CAMERA_BROKEN = 4     /* a defect of the library; the details are on standard error */
} camera_status;

/* The meaning of a status. Never NULL; always valid. */
const char *camera_message(camera_status status);

/* A picture: uint8 of shape (height, width, 3), in C order. Its bytes are 0, 1, 2, ..., 255, 0, ...
 * Only the caller refers to it (DLPACK_FLAG_BITMASK_IS_COPIED), and may write it. */
camera_status camera_frame(uint32_t height, uint32_t width, struct DLManagedTensorVersioned **out);

/* The same picture with the last row first. Its memory is the same; the row stride is negative. */
camera_status camera_frame_upside_down(uint32_t height, uint32_t width,
                                       struct DLManagedTensorVersioned **out);

/* The same picture, exported twice. It is read-only, and freed after both deleters have been called. */
camera_status camera_frame_for_two(uint32_t height, uint32_t width,
                                   struct DLManagedTensorVersioned *(*out)[2]);

/* The same picture after a call of `filter` with a tensor that is borrowed during the call. The filter
 * may write the elements, and must not keep a pointer. NULL means no filter. */
camera_status camera_frame_filtered(uint32_t height, uint32_t width, void (*filter)(DLTensor *),
                                    struct DLManagedTensorVersioned **out);

/* The linear light of each of the 256 values of a byte: float32 of shape (256), read-only. */
camera_status camera_gamma_table(struct DLManagedTensorVersioned **out);

/* For consumers that know only DLPack before 1.0. */
camera_status camera_frame_legacy(uint32_t height, uint32_t width, DLManagedTensor **out);

/* Always CAMERA_READ_ONLY: the table must not be exported as writable. */
camera_status camera_gamma_table_legacy(DLManagedTensor **out);

/* The number of pictures that are not yet freed. */
int64_t camera_frames_alive(void);

#ifdef __cplusplus
}
#endif

#endif /* CAMERA_H_ */

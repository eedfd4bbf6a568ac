/* What ONNX Runtime's CUDA provider asks of CUDA while it loads a graph, answered without a GPU. "Device memory" is the
   host's, streams and events are empty, and a launched kernel does nothing: a session comes up and says where its
   nodes would run, and no number that it computes means anything. Every other name that the provider asks for is a
   weak function that returns 0. CUDA_MAJOR is that of the library which the provider was built for. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAJOR = 9, MINOR = 0, ATTRIBUTE_MAJOR = 75, ATTRIBUTE_MINOR = 76, DEVICE_MEMORY = 2, OUT_OF_MEMORY = 2 };
static const size_t MEMORY = (size_t)64 << 30;

/* The first fields of struct cudaDeviceProp of driver_types.h, and its whole size: CUDA 12.9, and CUDA 13.0, which
   leaves out clockRate and deviceOverlap. */
struct properties {
  char name[256];
  char uuid[16], luid[8];
  unsigned int luid_mask;
  size_t memory, shared_per_block;
  int registers_per_block, warp_size;
  size_t pitch;
  int threads_per_block, threads[3], grid[3];
#if CUDA_MAJOR == 12
  int clock_rate;
#endif
  size_t constant_memory;
  int major, minor;
  size_t texture_alignment, texture_pitch;
#if CUDA_MAJOR == 12
  int overlap;
#endif
  int processors;
};
#if CUDA_MAJOR == 12
enum { PROPERTIES = 1032 };
#else
enum { PROPERTIES = 1008 };
#endif

int cudaGetDeviceProperties(struct properties *to, int device) {
  memset(to, 0, PROPERTIES);
  strcpy(to->name, "no GPU: a stub of posenc-export");
  to->memory = MEMORY;
  to->shared_per_block = 49152;
  to->registers_per_block = 65536;
  to->warp_size = 32;
  to->threads_per_block = 1024;
  to->major = MAJOR;
  to->minor = MINOR;
  to->processors = 132;
  return 0;
}
int cudaGetDeviceProperties_v2(struct properties *to, int device) { return cudaGetDeviceProperties(to, device); }
int cudaDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == ATTRIBUTE_MAJOR ? MAJOR : attribute == ATTRIBUTE_MINOR ? MINOR : 64;
  return 0;
}
int cudaGetDeviceCount(int *count) { *count = 1; return 0; }
int cudaGetDevice(int *device) { *device = 0; return 0; }
int cudaMemGetInfo(size_t *free, size_t *all) { *free = *all = MEMORY; return 0; }
int cudaDriverGetVersion(int *version) { *version = CUDA_MAJOR * 1000; return 0; }
int cudaRuntimeGetVersion(int *version) { *version = CUDA_MAJOR * 1000; return 0; }
size_t cudnnGetVersion(void) { return 91000; }

static int allocate(void **to, size_t bytes) {
  *to = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
  return *to ? 0 : OUT_OF_MEMORY;
}
int cudaMalloc(void **to, size_t bytes) { return allocate(to, bytes); }
int cudaMallocHost(void **to, size_t bytes) { return allocate(to, bytes); }
int cudaHostAlloc(void **to, size_t bytes, unsigned flags) { return allocate(to, bytes); }
int cudaMallocAsync(void **to, size_t bytes, void *stream) { return allocate(to, bytes); }
int cudaMallocFromPoolAsync(void **to, size_t bytes, void *pool, void *stream) { return allocate(to, bytes); }
int cudaFree(void *memory) { free(memory); return 0; }
int cudaFreeHost(void *memory) { free(memory); return 0; }
int cudaFreeAsync(void *memory, void *stream) { free(memory); return 0; }
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) { memmove(to, from, bytes); return 0; }
int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
  memmove(to, from, bytes);
  return 0;
}
int cudaMemset(void *to, int value, size_t bytes) { memset(to, value, bytes); return 0; }
int cudaMemsetAsync(void *to, int value, size_t bytes, void *stream) { memset(to, value, bytes); return 0; }
int cudaPointerGetAttributes(void *to, const void *memory) {
  memset(to, 0, 32);
  *(int *)to = DEVICE_MEMORY;
  return 0;
}

/* Handles that somebody may look at, and nobody reads. */
static int handle(void **to) { *to = calloc(1, 64); return *to ? 0 : OUT_OF_MEMORY; }
int cudaStreamCreate(void **to) { return handle(to); }
int cudaStreamCreateWithFlags(void **to, unsigned flags) { return handle(to); }
int cudaStreamCreateWithPriority(void **to, unsigned flags, int priority) { return handle(to); }
int cudaEventCreate(void **to) { return handle(to); }
int cudaEventCreateWithFlags(void **to, unsigned flags) { return handle(to); }
int cudaMemPoolCreate(void **to, const void *properties) { return handle(to); }
int cublasCreate_v2(void **to) { return handle(to); }
int cublasLtCreate(void **to) { return handle(to); }
int cudnnCreate(void **to) { return handle(to); }
int cudaStreamIsCapturing(void *stream, int *status) { *status = 0; return 0; }

static const char *const NOTHING = "a stub of posenc-export";
const char *cudaGetErrorString(int error) { return NOTHING; }
const char *cudaGetErrorName(int error) { return NOTHING; }
const char *cublasGetStatusString(int error) { return NOTHING; }
const char *cublasGetStatusName(int error) { return NOTHING; }
const char *cudnnGetErrorString(int error) { return NOTHING; }

/// @file cublas.cuh
/// NVIDIA's own product, as the yardstick of ours. Looked for when first asked for: nothing here needs it to link or to load.
#pragma once
#include "patchbay/gpu/matmul.cuh"

#if defined(__CUDACC__) && __has_include(<cublas_v2.h>)
#define PATCHBAY_CUBLAS
#include <cublas_v2.h>
#include <dlfcn.h>
#endif

namespace patchbay::PATCHBAY_GPU {

#ifdef PATCHBAY_CUBLAS
class Cublas {
 public:
  /// This thread's handle. @throws Error when the library is not there or refuses.
  static Cublas& of_this_thread(const char* format) {
    static thread_local Cublas cublas(format);
    return cublas;
  }
  /// y = x w^T. cuBLAS counts matrices by columns: it sees w (C,R) transposed times x (C,T), and leaves y (R,T).
  void multiply(const MatmulArgs& args, cudaDataType input, cudaDataType output, const void* w, gpu::Stream stream) {
    const float one = 1.0f, zero = 0.0f;
    require(set_stream_(handle_, gpu::native(stream)), "cublasSetStream");
    require(gemm_(handle_, CUBLAS_OP_T, CUBLAS_OP_N, args.rows, args.tokens, args.cols, &one, w, input, args.cols, args.x, input,
                  args.cols, &zero, args.y, output, args.rows, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            "cublasGemmEx");
  }

 private:
  explicit Cublas(const char* format) : format_(format) {
    void* library = nullptr;
    for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"})
      if ((library = dlopen(name, RTLD_NOW | RTLD_LOCAL))) break;
    if (!library)
      throw Error(where(), "the library libcublas was not found", "naive, tiled, vectorised, gemv, tensor_core",
                  "install cuBLAS, or name its folder in LD_LIBRARY_PATH");
    find(library, "cublasCreate_v2", create_);
    find(library, "cublasSetStream_v2", set_stream_);
    find(library, "cublasGemmEx", gemm_);
    require(create_(&handle_), "cublasCreate");
  }
  std::string where() const { return format_ + ": kernel cublas"; }
  template <class Function>
  void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (!function) throw Error(where(), std::string("libcublas lacks ") + name);
  }
  void require(cublasStatus_t status, const char* call) {
    if (status != CUBLAS_STATUS_SUCCESS)
      throw Error(where(), std::string(call) + " failed with status " + std::to_string(status));
  }

  std::string format_;
  cublasHandle_t handle_ = nullptr;
  decltype(&cublasCreate_v2) create_ = nullptr;
  decltype(&cublasSetStream_v2) set_stream_ = nullptr;
  // Spelled out, for the name is overloaded.
  cublasStatus_t (*gemm_)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const void* alpha,
                          const void* a, cudaDataType, int a_stride, const void* b, cudaDataType, int b_stride, const void* beta,
                          void* c, cudaDataType, int c_stride, cublasComputeType_t,
                          cublasGemmAlgo_t) = nullptr;
};

inline cudaDataType cublas_type(DType type) {
  return type == DType::f32 ? CUDA_R_32F : type == DType::f16 ? CUDA_R_16F : CUDA_R_16BF;
}
#endif

/// x and w must have the same 16-bit type.
template <class A, class W>
void launch_cublas([[maybe_unused]] const MatmulArgs& args, const A*, [[maybe_unused]] const W* w, const char* format,
                   [[maybe_unused]] gpu::Stream stream) {
#ifdef PATCHBAY_CUBLAS
  if constexpr (std::is_same_v<A, W>)
    return Cublas::of_this_thread(format).multiply(args, cublas_type(args.x_type), cublas_type(args.y_type), w, stream);
#endif
  throw Error(std::string(format) + ": kernel cublas", "it needs device cuda, and weights and activations of one 16-bit type",
              "naive, tiled, vectorised, gemv, tensor_core");
}

}  // namespace patchbay::PATCHBAY_GPU

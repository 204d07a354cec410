// What CUDA C++ has beyond C++, for kernels whose threads do not talk to each other: g++ compiles them with this in front.
#include <cmath>
#include <string>
#include <utility>

using std::ceil;
using std::fabs;
using std::floor;
using std::fma;
using std::fmax;
using std::fmin;
using std::round;

#define __global__
#define __device__

struct Index {
    unsigned x, y, z;
};
static Index threadIdx, blockIdx, blockDim, gridDim;

// Types of the arguments of a kernel, to be compared with what it is called with
template <typename T> std::string code() {
    if constexpr (std::is_pointer_v<T>)
        return "*" + code<std::remove_const_t<std::remove_pointer_t<T>>>();
    else if constexpr (std::is_floating_point_v<T>)
        return "f" + std::to_string(sizeof(T));
    else if constexpr (std::is_integral_v<T>)
        return "i" + std::to_string(sizeof(T));
    else
        return "V" + std::to_string(sizeof(T));
}

template <typename> struct Kernel;
template <typename... A> struct Kernel<void (*)(A...)> {
    static std::string types() { return ((code<A>() + " ") + ...); }

    // Thread after thread: forwards, backwards, or in an order that a multiplier makes (coprime to their number)
    static void run(void (*kernel)(A...), long long blocks, long long threads, long long step, void **arguments) {
        blockDim = {(unsigned)threads, 1, 1};
        gridDim = {(unsigned)blocks, 1, 1};
        long long all = blocks * threads;
        for (long long i = 0; i < all; i++) {
            long long t = step == 1 ? i : step == -1 ? all - 1 - i : (long long)((__int128)i * step % all);
            threadIdx.x = (unsigned)(t % threads);
            blockIdx.x = (unsigned)(t / threads);
            call(kernel, arguments, std::index_sequence_for<A...>());
        }
    }

    template <std::size_t... I> static void call(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
        kernel(*(std::remove_const_t<A> *)arguments[I]...);
    }
};

#define LAUNCHER(number, name)                                                                                         \
    extern "C" const char *types_##number() {                                                                          \
        static std::string types = Kernel<decltype(&name)>::types();                                                   \
        return types.c_str();                                                                                          \
    }                                                                                                                  \
    extern "C" void run_##number(long long blocks, long long threads, long long step, void **arguments) {              \
        Kernel<decltype(&name)>::run(&name, blocks, threads, step, arguments);                                         \
    }

// This header defines what CUDA C++ has beyond C++, so that g++ can compile the kernels.  Their
// threads may communicate only within their warp.
//
// Warps run one after another.  The lanes of a warp are fibers.  A fiber runs until it meets the
// others (__syncwarp, ballots, shuffles), and meanwhile the others stand still.  So if one lane
// reads what another lane wrote, and no meeting lies between, some order of lanes gives a wrong
// result.
#include <setjmp.h>
#include <ucontext.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

using std::ceil;
using std::fabs;
using std::floor;
using std::fma;
using std::fmax;
using std::fmin;
using std::log2;
using std::round;
using std::sqrt;

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__

struct Index {
    unsigned x, y, z;
};
static Index threadIdx, blockIdx, blockDim, gridDim;

// Subnormal numbers count as 0, as on a GPU where kernels are compiled with -ftz=true.  This CPU
// does so in double, too.
static bool flushing;
inline void set_flushing(bool on) {
#ifdef __SSE2__
    constexpr unsigned BITS = 0x8040; // of results, and of what is read
    _mm_setcsr(on ? _mm_getcsr() | BITS : _mm_getcsr() & ~BITS);
#endif
}

namespace fibers {
constexpr int LANES = 32, STACK = 1 << 18;
enum Meeting { NONE, SYNC, BALLOT, SHUFFLE, MATCH };
struct Lane {
    ucontext_t context; // starts the fiber; later on a jump resumes it without a system call
    jmp_buf place;
    bool begun;
    std::unique_ptr<char[]> stack;
    Meeting meeting;
    // The values of this meeting and of the one before, which other lanes may still read.
    unsigned long long brought[2];
    unsigned meetings;
    bool done;
};
static Lane lanes[LANES];
static jmp_buf scheduler;
static int current;
static void (*work)(void *);
static void *of_work;

[[noreturn]] inline void fail(const char *what) {
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}

// Wait until every lane of the warp is at the same meeting.  The values of a meeting can be read
// until the next meeting but one.
inline unsigned meet(unsigned mask, Meeting meeting, unsigned long long value) {
    if (mask != 0xffffffffu)
        fail("a meeting of some lanes only");
    Lane &own = lanes[current];
    unsigned turn = own.meetings++ % 2;
    own.brought[turn] = value;
    own.meeting = meeting;
    if (!_setjmp(own.place))
        _longjmp(scheduler, 1);
    return turn;
}

inline void begin() {
    for (;;) { // each turn is the work of one warp
        work(of_work);
        lanes[current].done = true;
        if (!_setjmp(lanes[current].place))
            _longjmp(scheduler, 1);
    }
}

// Run a lane until it meets the others or is done.
inline void go_on(Lane &lane) {
    if (_setjmp(scheduler))
        return;
    if (lane.begun)
        _longjmp(lane.place, 1);
    lane.begun = true;
    setcontext(&lane.context);
}

// Run all lanes of a warp.  Its first thread has number `first` in its block.  Lanes run forwards
// if step is 1, backwards if it is -1, and otherwise in a mixed order.
inline void run_warp(unsigned first, long long step, void (*function)(void *), void *argument) {
    work = function;
    of_work = argument;
    for (Lane &lane : lanes) {
        if (!lane.stack) {
            lane.stack.reset(new char[STACK]);
            getcontext(&lane.context);
            lane.context.uc_stack.ss_sp = lane.stack.get();
            lane.context.uc_stack.ss_size = STACK;
            lane.context.uc_link = nullptr;
            makecontext(&lane.context, begin, 0);
        }
        lane.meeting = NONE;
        lane.meetings = 0;
        lane.done = false;
    }
    do {
        for (int i = 0; i < LANES; i++) {
            current = (int)((step == 1 ? i : step == -1 ? LANES - 1 - i : 13 * i + 5) % LANES);
            threadIdx = {first + current, 0, 0};
            go_on(lanes[current]);
        }
        for (Lane &lane : lanes)
            if (lane.done != lanes[0].done || (!lane.done && lane.meeting != lanes[0].meeting))
                fail("lanes of a warp that wait for different things");
    } while (!lanes[0].done);
}

template <typename T> unsigned long long bits(T value) {
    unsigned long long all = 0;
    std::memcpy(&all, &value, sizeof(T));
    return all;
}
} // namespace fibers

inline void __syncwarp() { fibers::meet(0xffffffffu, fibers::SYNC, 0); }
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    unsigned turn = fibers::meet(mask, fibers::BALLOT, predicate != 0), all = 0;
    for (int i = 0; i < fibers::LANES; i++)
        all |= (unsigned)fibers::lanes[i].brought[turn] << i;
    return all;
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int other) {
    unsigned turn = fibers::meet(mask, fibers::SHUFFLE, fibers::bits(value));
    std::memcpy(&value, &fibers::lanes[fibers::current ^ other].brought[turn], sizeof(T));
    return value;
}
template <typename T> unsigned __match_any_sync(unsigned mask, T value) {
    unsigned turn = fibers::meet(mask, fibers::MATCH, fibers::bits(value)), same = 0;
    for (int i = 0; i < fibers::LANES; i++)
        same |= (unsigned)(fibers::lanes[i].brought[turn] == fibers::bits(value)) << i;
    return same;
}
template <typename T> T __ldg(const T *from) { return *from; }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz((unsigned)bits) : 32; }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

// Spell the type of an argument of a kernel.  The stand-in compares it with what a call passes.
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

    struct Call {
        void (*kernel)(A...);
        void **arguments;
    };

    // Run all warps: forwards if step is 1, backwards if it is -1, and otherwise warp i * step
    // modulo their number, which is coprime to step.
    static void run(void (*kernel)(A...), long long blocks, long long threads, long long step,
                    void **arguments) {
        blockDim = {(unsigned)threads, 1, 1};
        gridDim = {(unsigned)blocks, 1, 1};
        Call whole = {kernel, arguments};
        long long of_block = threads / fibers::LANES, all = blocks * of_block;
        if (threads % fibers::LANES)
            fibers::fail("a block that is not whole warps");
        for (long long i = 0; i < all; i++) {
            long long t = step == 1    ? i
                          : step == -1 ? all - 1 - i
                                       : (long long)((__int128)i * step % all);
            blockIdx.x = (unsigned)(t / of_block);
            fibers::run_warp((unsigned)(t % of_block * fibers::LANES), step, &Kernel::call, &whole);
        }
        set_flushing(false);
    }

    static void call(void *of_call) {
        set_flushing(flushing); // fibers begin without
        call(*(Call *)of_call, std::index_sequence_for<A...>());
    }
    template <std::size_t... I> static void call(const Call &of_call, std::index_sequence<I...>) {
        of_call.kernel(*(std::remove_const_t<A> *)of_call.arguments[I]...);
    }
};

#define LAUNCHER(number, name)                                                                     \
    extern "C" const char *types_##number() {                                                      \
        static std::string types = Kernel<decltype(&name)>::types();                               \
        return types.c_str();                                                                      \
    }                                                                                              \
    extern "C" void run_##number(long long blocks, long long threads, long long step,              \
                                 void **arguments) {                                               \
        Kernel<decltype(&name)>::run(&name, blocks, threads, step, arguments);                     \
    }

extern "C" void flush_subnormals(int on) { flushing = on; }

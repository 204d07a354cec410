// This file runs the machine code of a kernel (sm_90) on a CPU, one warp after another, and counts.
//
// machine.py decodes the text of NVIDIA's disassembler to Instruction.  Registers are arrays of 32
// lanes; addresses of global memory are addresses of this process.  Lanes that went different ways
// run one group after the other, and meet again where the code waits for them (BSYNC).
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;
typedef int64_t i64;

enum Op { OPS };
enum Kind { NOTHING, REGISTER, IMMEDIATE, CONSTANT };
enum Type { U32, S32, U64, S64, F32, F64 };
enum Compare { LT = 1, EQ = 2, GT = 4, UNORDERED = 8 };
enum Round { NEAREST, ZERO, UP, DOWN };

constexpr int LANES = 32, RZ = 255, URZ = 319, REGISTERS = 320, PT = 7, UPT = 15;
constexpr u32 ALL = 0xffffffffu;
constexpr int SHARED = 0x400; // kernels place their shared memory here

struct Source {
    uint8_t kind, negative, absolute, inverted;
    uint16_t index, bank; // a register, or a bank of constants
    u64 value;            // of an immediate, or the offset of a constant
};
struct Instruction {
    uint16_t op, dst;
    uint8_t guard, guard_not, wide, high, extended, ftz, from, to, compare, either, round, bytes;
    uint8_t dst_predicates[2], predicates[4], predicates_not[4], uniform, barrier;
    int32_t target;
    uint16_t address_register, address_uniform;
    int64_t offset;
    Source source[4];
};
struct Counts {
    u64 global_requests, global_sectors, shared_requests, shared_wavefronts, lanes;
};
struct Launch {
    const Instruction *code;
    u64 *counts; // of each instruction
    const uint8_t *constants[8];
    Counts *all;
    int32_t length, blocks, threads;
};

struct Warp {
    u32 r[REGISTERS][LANES] = {};
    u32 p[16] = {};
    u32 barrier[16][LANES] = {}, waiting[16] = {};
    int pc[LANES] = {};
    u32 alive = ALL, blocked = 0, at_sync = 0;
    const Launch *launch;
    uint8_t *shared;
    u32 block, first;
};

static char message[256];
static bool failed;

static float f(u32 bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
static u32 b(float value) {
    u32 bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}
static double d(u64 bits) {
    double value;
    std::memcpy(&value, &bits, 8);
    return value;
}
static u64 b(double value) {
    u64 bits;
    std::memcpy(&bits, &value, 8);
    return bits;
}
static inline u32 flush(u32 bits, bool ftz) {
    return ftz && !(bits & 0x7f800000u) ? bits & 0x80000000u : bits;
}

static inline u32 constant(const Warp &w, const Source &s, u64 more = 0) {
    u32 value;
    std::memcpy(&value, w.launch->constants[s.bank] + s.value + more, 4);
    return value;
}

// Fetch 32 bits of a source, without its sign.  `part` is 1 for the upper half of 64 bits.
static inline void raw(const Warp &w, const Source &s, u32 *v, int part = 0) {
    if (s.kind == REGISTER) {
        int i = s.index == RZ || s.index == URZ ? s.index : s.index + part;
        std::memcpy(v, w.r[i], sizeof w.r[i]);
        return;
    }
    u32 value = s.kind == IMMEDIATE  ? (u32)(s.value >> 32 * part)
                : s.kind == CONSTANT ? constant(w, s, 4 * part)
                                     : 0;
    for (int l = 0; l < LANES; l++)
        v[l] = value;
}
static inline void integer(const Warp &w, const Source &s, u32 *v) {
    raw(w, s, v);
    u32 change = s.inverted || s.negative ? ALL : 0, more = s.negative;
    for (int l = 0; l < LANES; l++)
        v[l] = (v[l] ^ change) + more;
}
static inline void real(const Warp &w, const Source &s, u32 *v, bool ftz) {
    raw(w, s, v);
    u32 keep = s.absolute ? 0x7fffffffu : ALL, turn = s.negative ? 0x80000000u : 0;
    for (int l = 0; l < LANES; l++)
        v[l] = flush((v[l] & keep) ^ turn, ftz);
}
static inline void wide(const Warp &w, const Source &s, u64 *v, bool sign) {
    u32 low[LANES], high[LANES];
    raw(w, s, low);
    raw(w, s, high, 1);
    for (int l = 0; l < LANES; l++)
        v[l] = low[l] | (u64)high[l] << 32;
    if (sign)
        for (int l = 0; l < LANES; l++)
            v[l] = (v[l] & (s.absolute ? ~0ull >> 1 : ~0ull)) ^ (s.negative ? 1ull << 63 : 0);
    else if (s.negative || s.inverted)
        for (int l = 0; l < LANES; l++)
            v[l] = ~v[l] + s.negative;
}

static inline void put(Warp &w, int dst, const u32 *v, u32 mask) {
    if (dst == RZ || dst == URZ)
        return;
    if (mask == ALL) {
        std::memcpy(w.r[dst], v, sizeof w.r[dst]);
        return;
    }
    for (int l = 0; l < LANES; l++)
        w.r[dst][l] = mask >> l & 1 ? v[l] : w.r[dst][l];
}
static inline void put_wide(Warp &w, int dst, const u64 *v, u32 mask) {
    u32 low[LANES], high[LANES];
    for (int l = 0; l < LANES; l++)
        low[l] = (u32)v[l], high[l] = (u32)(v[l] >> 32);
    put(w, dst, low, mask);
    put(w, dst == RZ || dst == URZ ? dst : dst + 1, high, mask);
}
static inline void put_predicate(Warp &w, int dst, u32 bits, u32 mask) {
    if (dst != PT && dst != UPT)
        w.p[dst] = (w.p[dst] & ~mask) | (bits & mask);
}
static inline u32 predicate(const Warp &w, const Instruction &i, int n) {
    return i.predicates_not[n] ? ~w.p[i.predicates[n]] : w.p[i.predicates[n]];
}

static inline u32 compared(int order, const Instruction &i) { return (i.compare & order) != 0; }
template <typename T> static inline int order(T a, T b) {
    return a < b ? LT : a == b ? EQ : a > b ? GT : UNORDERED;
}

// Compute with the rounding of an instruction.  Volatile operands keep the compiler from moving the
// computation to where another rounding is set.
template <typename F> static double rounded(int mode, double x, double y, double z, F f) {
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
    if (mode == NEAREST)
        return f(x, y, z);
    volatile double p = x, q = y, r = z;
    std::fesetround(modes[mode]);
    volatile double result = f(p, q, r);
    std::fesetround(FE_TONEAREST);
    return result;
}

// Count the sectors of 32 bytes that lanes touch, or the turns that the banks of shared memory
// need.
static void count_global(Warp &w, const u64 *address, int bytes, u32 mask) {
    u64 seen[2 * LANES];
    int count = 0;
    for (int l = 0; l < LANES; l++)
        if (mask >> l & 1)
            for (u64 s = address[l] / 32; s <= (address[l] + bytes - 1) / 32; s++) {
                int i = count;
                while (i > 0 && seen[i - 1] != s)
                    i--;
                if (i == 0)
                    seen[count++] = s;
            }
    w.launch->all->global_requests++;
    w.launch->all->global_sectors += count;
}
static void count_shared(Warp &w, const u64 *address, int bytes, u32 mask) {
    int together = 128 / bytes;
    for (int from = 0; from < LANES; from += together) {
        u64 words[LANES * 4];
        int count = 0, of_bank[LANES] = {}, most = 0;
        for (int l = from; l < from + together && l < LANES; l++)
            for (int part = 0; mask >> l & 1 && part < bytes / 4; part++) {
                u64 word = address[l] / 4 + part;
                int i = count;
                while (i > 0 && words[i - 1] != word)
                    i--;
                if (i == 0) {
                    words[count++] = word;
                    int n = ++of_bank[word % LANES];
                    most = n > most ? n : most;
                }
            }
        w.launch->all->shared_wavefronts += most;
    }
    w.launch->all->shared_requests++;
}

static void access(Warp &w, const Instruction &i, u32 mask, bool shared, bool store) {
    u64 address[LANES];
    for (int l = 0; l < LANES; l++) {
        u64 at = w.r[i.address_register][l];
        if (i.wide)
            at |= (u64)(i.address_register == RZ ? 0 : w.r[i.address_register + 1][l]) << 32;
        at += w.r[i.address_uniform][l] + i.offset;
        if (i.wide && i.address_uniform != URZ)
            at += (u64)w.r[i.address_uniform + 1][l] << 32;
        address[l] = shared ? (u32)at : at;
        if (mask >> l & 1 && address[l] % i.bytes) {
            std::snprintf(message, sizeof message, "an address that is no multiple of %d", i.bytes);
            failed = true;
            return;
        }
    }
    if (!mask)
        return;
    if (shared)
        count_shared(w, address, i.bytes, mask);
    else
        count_global(w, address, i.bytes, mask);
    for (int l = 0; l < LANES; l++)
        if (mask >> l & 1) {
            uint8_t *at = shared ? w.shared + address[l] : (uint8_t *)address[l];
            for (int part = 0; part < i.bytes / 4; part++) {
                int r = i.dst == RZ ? RZ : i.dst + part;
                if (store)
                    std::memcpy(at + 4 * part, &w.r[r][l], 4);
                else if (r != RZ)
                    std::memcpy(&w.r[r][l], at + 4 * part, 4);
            }
        }
}

static u32 lookup(u32 a, u32 b, u32 c, u32 table) {
    u32 all = 0;
    for (int n = 0; n < 8; n++)
        if (table >> n & 1)
            all |= (n & 4 ? a : ~a) & (n & 2 ? b : ~b) & (n & 1 ? c : ~c);
    return all;
}

#define LANE for (int l = 0; l < LANES; l++)

static inline void integer_op(Warp &w, const Instruction &i, u32 m) {
    u32 x[LANES], y[LANES], z[LANES], out[LANES], bits[2] = {0, 0};
    u64 c[LANES], sum[LANES];
    auto fetch = [&](int n) {
        integer(w, i.source[0], x);
        if (n > 1)
            integer(w, i.source[1], y);
        if (n > 2)
            integer(w, i.source[2], z);
    };
    switch (i.op) {
    case IADD3: {
        // A negative number is its inverse plus 1, so that carries are right.
        u32 more[LANES];
        int ones = 0;
        u32 *all[] = {x, y, z};
        for (int s = 0; s < 3; s++) {
            raw(w, i.source[s], all[s]);
            if (i.source[s].negative || i.source[s].inverted)
                LANE all[s][l] = ~all[s][l];
            ones += i.source[s].negative;
        }
        u32 in0 = i.extended ? predicate(w, i, 0) : 0, in1 = i.extended ? predicate(w, i, 1) : 0;
        LANE more[l] = ones + (in0 >> l & 1) + (in1 >> l & 1);
        LANE sum[l] = (u64)x[l] + y[l] + z[l] + more[l];
        LANE out[l] = (u32)sum[l];
        if (i.dst_predicates[1] != PT && i.dst_predicates[1] != UPT) {
            LANE {
                u64 first = (u64)x[l] + y[l];
                bits[0] |= (u32)(first >> 32) << l;
                bits[1] |= (u32)(((u64)(u32)first + z[l] + more[l]) >> 32) << l;
            }
        } else
            LANE bits[0] |= (u32)(sum[l] >> 32 != 0) << l;
        put_predicate(w, i.dst_predicates[0], bits[0], m);
        put_predicate(w, i.dst_predicates[1], bits[1], m);
        break;
    }
    case IMAD: {
        fetch(2);
        bool sign = i.from == S32;
        u32 carry = i.extended ? predicate(w, i, 0) : 0;
        if (!i.wide && !i.high) {
            integer(w, i.source[2], z);
            LANE out[l] = x[l] * y[l] + z[l] + (carry >> l & 1);
            break;
        }
        wide(w, i.source[2], c, false);
        LANE {
            u64 product = sign ? (u64)((i64)(i32)x[l] * (i32)y[l]) : (u64)x[l] * y[l];
            unsigned __int128 whole = (unsigned __int128)product + c[l] + (carry >> l & 1);
            sum[l] = (u64)whole;
            bits[0] |= (u32)(whole >> 64 != 0) << l;
        }
        put_predicate(w, i.dst_predicates[0], bits[0], m);
        if (i.wide)
            return put_wide(w, i.dst, sum, m);
        LANE out[l] = (u32)(sum[l] >> 32);
        break;
    }
    case LEA: {
        bool sign = i.from == S32; // SX32
        raw(w, i.source[0], x);
        raw(w, i.source[1], y);
        int place = i.high && !sign ? 3 : 2;
        int shift = (int)i.source[place].value;
        if (i.high && !sign)
            raw(w, i.source[2], z);
        else
            LANE z[l] = sign && (i32)x[l] < 0 ? ALL : 0;
        u32 carry = i.extended ? predicate(w, i, 0) : 0;
        LANE {
            u64 value = x[l] | (u64)z[l] << 32;
            if (i.source[0].negative)
                value = i.high ? -value : (u64)(u32)-x[l];
            u32 part = i.high ? (u32)(value << shift >> 32) : (u32)(value << shift);
            if (i.high && shift == 0)
                part = (u32)(value >> 32);
            u32 other = i.source[1].inverted || i.source[1].negative ? ~y[l] : y[l];
            sum[l] = (u64)part + other + i.source[1].negative + (carry >> l & 1);
            out[l] = (u32)sum[l];
            bits[0] |= (u32)(sum[l] >> 32) << l;
        }
        put_predicate(w, i.dst_predicates[0], bits[0], m);
        break;
    }
    case LOP3: {
        fetch(3);
        u32 table = (u32)i.source[3].value, some = predicate(w, i, 0);
        LANE out[l] = lookup(x[l], y[l], z[l], table);
        LANE some |= (u32)(out[l] != 0) << l;
        put_predicate(w, i.dst_predicates[0], some, m);
        break;
    }
    case SHF: {
        fetch(3); // the lower half, the shift, the upper half
        bool sign = i.from == S32 || i.from == S64, whole = i.from == U64 || i.from == S64;
        LANE {
            u32 most = whole ? 63 : 32, shift = y[l] < most ? y[l] : most;
            u64 value = x[l] | (u64)z[l] << 32;
            if (i.compare == LT) { // to the left
                if (whole || i.high) {
                    u64 moved = value << (shift & 63);
                    out[l] = i.high ? (u32)(moved >> 32) : (u32)moved;
                } else
                    out[l] = shift > 31 ? 0 : x[l] << shift;
            } else if (i.high) {
                u64 moved = sign ? (u64)((i64)value >> shift) : value >> shift;
                out[l] = !whole && shift < 32 ? (sign ? (u32)((i32)z[l] >> shift) : z[l] >> shift)
                         : whole              ? (u32)(moved >> 32)
                                              : (sign ? (u32)((i32)z[l] >> 31) : 0);
            } else
                out[l] = (u32)(sign ? (u64)((i64)value >> shift) : value >> shift);
        }
        break;
    }
    case ISETP: {
        fetch(2);
        u32 both = predicate(w, i, 0), low = i.extended ? predicate(w, i, 1) : 0, result = 0;
        LANE {
            int o = i.from == S32 ? order((i32)x[l], (i32)y[l]) : order(x[l], y[l]);
            u32 yes;
            if (!i.extended)
                yes = compared(o, i);
            else
                yes = o == EQ   ? (low >> l & 1)
                      : o == LT ? (i.compare & LT) != 0
                                : (i.compare & GT) != 0;
            result |= yes << l;
        }
        bits[0] = i.either ? result | both : result & both;
        bits[1] = i.either ? ~result | both : ~result & both;
        put_predicate(w, i.dst_predicates[0], bits[0], m);
        put_predicate(w, i.dst_predicates[1], bits[1], m);
        return;
    }
    case VIADD:
        fetch(2);
        LANE out[l] = x[l] + y[l];
        break;
    case VIMNMX:
    case VIADDMNMX: {
        fetch(i.op == VIADDMNMX ? 3 : 2);
        if (i.op == VIADDMNMX)
            LANE x[l] = x[l] + y[l], y[l] = z[l];
        u32 least = predicate(w, i, 0);
        LANE {
            bool less = i.from == S32 ? (i32)x[l] < (i32)y[l] : x[l] < y[l];
            out[l] = less == (least >> l & 1) ? x[l] : y[l];
        }
        break;
    }
    case SEL: {
        fetch(2);
        u32 first = predicate(w, i, 0);
        LANE out[l] = first >> l & 1 ? x[l] : y[l];
        break;
    }
    case IABS:
        fetch(1);
        LANE out[l] = (i32)x[l] < 0 ? -x[l] : x[l];
        break;
    case POPC:
        fetch(1);
        LANE out[l] = __builtin_popcount(x[l]);
        break;
    case FLO:
        fetch(1);
        LANE out[l] = !x[l] ? ALL : i.high ? __builtin_clz(x[l]) : 31 - __builtin_clz(x[l]);
        break;
    case BREV:
        fetch(1);
        LANE {
            out[l] = 0;
            for (int n = 0; n < 32; n++)
                out[l] |= (x[l] >> n & 1) << (31 - n);
        }
        break;
    case PRMT:
        fetch(3);
        LANE {
            u64 bytes = x[l] | (u64)z[l] << 32;
            out[l] = 0;
            for (int n = 0; n < 4; n++) {
                u32 pick = y[l] >> 4 * n & 15, byte = bytes >> 8 * (pick & 7) & 255;
                out[l] |= (pick & 8 ? (byte >> 7) * 255 : byte) << 8 * n;
            }
        }
        break;
    case MOV:
        fetch(1);
        std::memcpy(out, x, sizeof out);
        break;
    case HFMA2: // it moves constants
        LANE out[l] = (u32)i.source[2].value << 16 | (u32)i.source[3].value;
        break;
    }
    put(w, i.dst, out, m);
}

static inline void real_op(Warp &w, const Instruction &i, u32 m) {
    u32 x[LANES], y[LANES], z[LANES], out[LANES], result = 0;
    auto fetch = [&](int n) {
        real(w, i.source[0], x, i.ftz);
        if (n > 1)
            real(w, i.source[1], y, i.ftz);
        if (n > 2)
            real(w, i.source[2], z, i.ftz);
    };
    switch (i.op) {
    case FADD:
        fetch(2);
        LANE out[l] = flush(b(f(x[l]) + f(y[l])), i.ftz);
        break;
    case FMUL:
        fetch(2);
        LANE out[l] = flush(b(f(x[l]) * f(y[l])), i.ftz);
        break;
    case FFMA:
        fetch(3);
        LANE out[l] = flush(b(__builtin_fmaf(f(x[l]), f(y[l]), f(z[l]))), i.ftz);
        break;
    case FSEL: {
        fetch(2);
        u32 first = predicate(w, i, 0);
        LANE out[l] = first >> l & 1 ? x[l] : y[l];
        break;
    }
    case FMNMX: {
        fetch(2);
        u32 least = predicate(w, i, 0);
        LANE {
            float p = f(x[l]), q = f(y[l]);
            bool first = q != q || (least >> l & 1 ? p < q : p > q);
            out[l] = first ? x[l] : y[l];
        }
        break;
    }
    case FSETP: {
        fetch(2);
        u32 both = predicate(w, i, 0);
        LANE result |= compared(order(f(x[l]), f(y[l])), i) << l;
        put_predicate(w, i.dst_predicates[0], i.either ? result | both : result & both, m);
        put_predicate(w, i.dst_predicates[1], i.either ? ~result | both : ~result & both, m);
        return;
    }
    case FCHK: // whether a division needs the slow way
        fetch(2);
        LANE {
            int p = x[l] >> 23 & 255, q = y[l] >> 23 & 255;
            bool quick = q >= 2 && q <= 252 && (f(x[l]) == 0 || (p >= 24 && p < 254)) &&
                         p - q < 125 && (p - q > -125 || f(x[l]) == 0);
            result |= (u32)!quick << l;
        }
        put_predicate(w, i.dst_predicates[0], result, m);
        return;
    }
    put(w, i.dst, out, m);
}

static inline void double_op(Warp &w, const Instruction &i, u32 m) {
    u64 x[LANES], y[LANES], z[LANES], out[LANES];
    wide(w, i.source[0], x, true);
    wide(w, i.source[1], y, true);
    wide(w, i.source[2], z, true);
    switch (i.op) {
    case DADD:
        LANE out[l] = b(rounded(i.round, d(x[l]), d(y[l]), 0,
                                [](double p, double q, double) { return p + q; }));
        break;
    case DMUL:
        LANE out[l] = b(rounded(i.round, d(x[l]), d(y[l]), 0,
                                [](double p, double q, double) { return p * q; }));
        break;
    case DFMA:
        LANE out[l] = b(rounded(i.round, d(x[l]), d(y[l]), d(z[l]),
                                [](double p, double q, double r) { return std::fma(p, q, r); }));
        break;
    case DSETP: {
        u32 both = predicate(w, i, 0), result = 0;
        LANE result |= compared(order(d(x[l]), d(y[l])), i) << l;
        put_predicate(w, i.dst_predicates[0], i.either ? result | both : result & both, m);
        put_predicate(w, i.dst_predicates[1], i.either ? ~result | both : ~result & both, m);
        return;
    }
    }
    put_wide(w, i.dst, out, m);
}

static double whole(double value, int mode) {
    return mode == ZERO   ? std::trunc(value)
           : mode == UP   ? std::ceil(value)
           : mode == DOWN ? std::floor(value)
                          : std::nearbyint(value);
}
template <typename T> static T limited(double value, double low, double high) {
    return value != value ? 0 : value <= low ? (T)low : value >= high ? (T)(high - 1) : (T)value;
}

static void convert(Warp &w, const Instruction &i, u32 m) {
    u32 low[LANES];
    u64 x[LANES], out[LANES];
    bool from_wide = i.from == F64 || i.from == U64 || i.from == S64;
    bool to_wide = i.to == F64 || i.to == U64 || i.to == S64;
    if (from_wide)
        wide(w, i.source[0], x, i.from == F64);
    else if (i.from == F32) {
        real(w, i.source[0], low, i.ftz);
        LANE x[l] = low[l];
    } else {
        integer(w, i.source[0], low);
        LANE x[l] = low[l];
    }
    LANE {
        if (i.op == I2F) {
            volatile u64 bits = x[l];
            volatile float single = 0;
            volatile double twice = 0;
            std::fesetround(i.round == UP ? FE_UPWARD : FE_TONEAREST);
            if (i.to == F32)
                single = i.from == S32   ? (float)(i32)bits
                         : i.from == U32 ? (float)(u32)bits
                         : i.from == S64 ? (float)(i64)bits
                                         : (float)bits;
            else
                twice = i.from == S32   ? (double)(i32)bits
                        : i.from == U32 ? (double)(u32)bits
                        : i.from == S64 ? (double)(i64)bits
                                        : (double)bits;
            std::fesetround(FE_TONEAREST);
            out[l] = i.to == F32 ? b((float)single) : b((double)twice);
            continue;
        }
        double value = i.from == F64 ? d(x[l]) : (double)f((u32)x[l]);
        if (i.op == F2F)
            out[l] = i.to == F32 ? (u64)flush(b((float)value), i.ftz) : b(value);
        else if (i.op == FRND)
            out[l] = i.to == F32 ? (u64)b((float)whole(value, i.round)) : b(whole(value, i.round));
        else { // F2I
            value = whole(value, i.round);
            out[l] = i.to == S32   ? (u32)limited<i32>(value, -0x1p31, 0x1p31)
                     : i.to == U32 ? limited<u32>(value, 0, 0x1p32)
                     : i.to == S64 ? (u64)(value >= 0x1p63    ? INT64_MAX
                                           : value <= -0x1p63 ? INT64_MIN
                                                              : (i64)value)
                                   : (value >= 0x1p64 ? ~0ull
                                      : value <= 0    ? 0
                                                      : (u64)value);
        }
    }
    if (to_wide)
        return put_wide(w, i.dst, out, m);
    LANE low[l] = (u32)out[l];
    put(w, i.dst, low, m);
}

static void special(Warp &w, const Instruction &i, u32 m, u32 active) {
    u32 x[LANES], y[LANES], z[LANES], out[LANES];
    switch (i.op) {
    case MUFU:
        real(w, i.source[0], x, i.ftz && !i.wide);
        LANE {
            if (i.wide) // a number of 64 bits, whose lower half is 0
                out[l] = (u32)(b(1 / d((u64)x[l] << 32)) >> 32);
            else
                out[l] = b(i.compare == LT ? 1 / std::sqrt(f(x[l])) : 1 / f(x[l]));
        }
        break;
    case S2R: // source 0 says which register
        LANE out[l] = i.source[0].value == 1 ? w.first + l : i.source[0].value == 2 ? w.block : 0;
        if (i.wide)
            put(w, i.dst + 1, w.r[RZ], m);
        break;
    case LDC:
        LANE {
            u64 at = i.source[0].value + w.r[i.address_register][l] +
                     w.r[i.address_uniform][l] + i.offset;
            std::memcpy(&out[l], w.launch->constants[i.source[0].bank] + at, 4);
            y[l] = 0;
            if (i.wide)
                std::memcpy(&y[l], w.launch->constants[i.source[0].bank] + at + 4, 4);
        }
        if (i.wide)
            put(w, i.dst + 1, y, m);
        break;
    case VOTE: {
        u32 votes = predicate(w, i, 0) & active;
        LANE out[l] = votes;
        bool yes = i.compare == LT ? votes == active : votes != 0; // all, or any
        put_predicate(w, i.dst_predicates[0], yes ? ALL : 0, m);
        break;
    }
    case MATCH:
        raw(w, i.source[0], x);
        LANE {
            out[l] = 0;
            for (int n = 0; n < LANES; n++)
                out[l] |= (u32)(x[n] == x[l] && active >> n & 1) << n;
        }
        break;
    case SHFL: {
        raw(w, i.source[0], x);
        raw(w, i.source[1], y);
        raw(w, i.source[2], z);
        u32 valid = 0;
        LANE {
            u32 clamp = z[l] & 31, mask = z[l] >> 8 & 31, low = l & mask;
            u32 high = low | (clamp & ~mask);
            i32 from = i.compare == 1   ? (i32)(l ^ (y[l] & 31))
                       : i.compare == 2 ? l - (i32)(y[l] & 31)
                       : i.compare == 4 ? l + (i32)(y[l] & 31)
                                        : (i32)(low | (y[l] & ~mask & 31));
            bool fits = i.compare == 2 ? from >= (i32)high : from <= (i32)high;
            out[l] = fits ? x[from & 31] : x[l];
            valid |= (u32)fits << l;
        }
        put_predicate(w, i.dst_predicates[0], valid, m);
        break;
    }
    case R2UR:
        raw(w, i.source[0], x);
        LANE out[l] = x[__builtin_ctz(active)];
        break;
    case PLOP3: {
        u32 p[3] = {predicate(w, i, 0), predicate(w, i, 1), predicate(w, i, 2)};
        for (int n = 0; n < 2; n++)
            put_predicate(w, i.dst_predicates[n], lookup(p[0], p[1], p[2], (u32)i.source[n].value),
                          m);
        return;
    }
    case R2P:
        raw(w, i.source[0], x);
        for (int n = 0; n < 7; n++)
            if (i.source[1].value >> n & 1) {
                u32 bits = 0;
                LANE bits |= (x[l] >> n & 1) << l;
                put_predicate(w, n, bits, m);
            }
        return;
    case P2R:
        raw(w, i.source[0], x);
        LANE {
            u32 all = 0, keep = (u32)i.source[1].value;
            for (int n = 0; n < 7; n++)
                all |= (w.p[n] >> l & 1) << n;
            out[l] = (all & keep) | (x[l] & ~keep);
        }
        break;
    }
    put(w, i.dst, out, m);
}

// Let those lanes go on that wait for lanes which are there now, or have gone.
static void release(Warp &w) {
    for (int n = 0; n < 16; n++)
        for (int l = 0; l < LANES && w.waiting[n]; l++)
            if (w.waiting[n] >> l & 1) {
                u32 all = w.barrier[n][l] & w.alive;
                if ((all & ~w.waiting[n]) == 0) {
                    w.blocked &= ~(all | 1u << l);
                    w.waiting[n] &= ~(all | 1u << l);
                }
            }
    if (w.at_sync && (w.alive & ~w.at_sync) == 0) {
        w.blocked &= ~w.at_sync;
        w.at_sync = 0;
    }
}

static void place(Warp &w, u32 mask, int pc) { LANE if (mask >> l & 1) w.pc[l] = pc; }

// Run a group of lanes until it parts, waits or ends.
static void run_group(Warp &w, u32 active, int pc) {
    const Launch &launch = *w.launch;
    for (;;) {
        if (pc < 0 || pc >= launch.length) {
            std::snprintf(message, sizeof message, "a jump out of the code");
            failed = true;
            return;
        }
        const Instruction &i = launch.code[pc];
        u32 guard = i.guard_not ? ~w.p[i.guard] : w.p[i.guard];
        u32 m = i.uniform ? guard : guard & active;
        launch.counts[pc]++;
        launch.all->lanes += __builtin_popcount(guard & active);
        switch (i.op) {
        case IADD3:
        case IMAD:
        case LEA:
        case LOP3:
        case SHF:
        case ISETP:
        case VIADD:
        case VIMNMX:
        case VIADDMNMX:
        case SEL:
        case IABS:
        case POPC:
        case FLO:
        case BREV:
        case PRMT:
        case MOV:
        case HFMA2:
            integer_op(w, i, m);
            break;
        case FADD:
        case FMUL:
        case FFMA:
        case FSEL:
        case FMNMX:
        case FSETP:
        case FCHK:
            real_op(w, i, m);
            break;
        case DADD:
        case DMUL:
        case DFMA:
        case DSETP:
            double_op(w, i, m);
            break;
        case I2F:
        case F2I:
        case F2F:
        case FRND:
            convert(w, i, m);
            break;
        case VOTE:
        case MATCH:
        case SHFL:
        case R2UR:
        case MUFU:
        case S2R:
        case LDC:
        case PLOP3:
        case R2P:
        case P2R:
            special(w, i, m, active);
            break;
        case LDG:
            access(w, i, m, false, false);
            break;
        case STG:
            access(w, i, m, false, true);
            break;
        case LDS:
            access(w, i, m, true, false);
            break;
        case STS:
            access(w, i, m, true, true);
            break;
        case NOP:
            break;
        case BSSY:
            LANE if (m >> l & 1) w.barrier[i.barrier][l] = active;
            break;
        case BREAK:
            m &= predicate(w, i, 0);
            LANE w.barrier[i.barrier][l] &= ~m;
            release(w);
            break;
        case BRA:
        case CALL: {
            u32 taken = m & predicate(w, i, 0);
            if (taken == active) {
                pc = i.target;
                continue;
            }
            if (taken) {
                place(w, taken, i.target);
                place(w, active & ~taken, pc + 1);
                return;
            }
            break;
        }
        case BRX:
        case RET: {
            if (m != active) {
                place(w, active & ~m, pc + 1);
            }
            u32 to[LANES];
            raw(w, i.source[0], to);
            LANE if (m >> l & 1) w.pc[l] =
                ((int)to[l] + (int)i.offset) / 16 + (i.op == BRX ? pc + 1 : 0);
            return;
        }
        case BSYNC: {
            u32 all = w.barrier[i.barrier][__builtin_ctz(active)] & w.alive;
            if ((all & ~active) == 0)
                break;
            w.blocked |= active;
            w.waiting[i.barrier] |= active;
            place(w, active, pc + 1);
            release(w);
            return;
        }
        case WARPSYNC:
        case BRADIV:
            if (active == w.alive)
                break;
            w.blocked |= active;
            w.at_sync |= active;
            place(w, active, pc + 1);
            release(w);
            return;
        case EXIT:
            w.alive &= ~m;
            place(w, active & ~m, pc + 1);
            release(w);
            if (m == active || m)
                return;
            break;
        default:
            std::snprintf(message, sizeof message, "unknown instruction, number %d", pc);
            failed = true;
        }
        if (failed)
            return;
        pc++;
    }
}

extern "C" const char *run(const Launch *launch) {
    static uint8_t shared[256 << 10];
    failed = false;
    for (int block = 0; block < launch->blocks; block++)
        for (int first = 0; first < launch->threads; first += LANES) {
            Warp w;
            w.launch = launch, w.shared = shared, w.block = block, w.first = first;
            w.p[PT] = w.p[UPT] = ALL;
            while (w.alive) {
                u32 ready = w.alive & ~w.blocked, group = 0;
                int pc = INT32_MAX;
                LANE if (ready >> l & 1 && w.pc[l] < pc) pc = w.pc[l];
                LANE if (ready >> l & 1 && w.pc[l] == pc) group |= 1u << l;
                if (!group)
                    return "lanes of a warp that wait for different things";
                run_group(w, group, pc);
                if (failed)
                    return message;
            }
        }
    return nullptr;
}
extern "C" int sizes(int what) { return what ? sizeof(Launch) : sizeof(Instruction); }

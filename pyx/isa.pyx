"""Instruction sets: the tables of functions that this build has, and which of them are in use."""

cdef extern from "isa.h":
    """
    #if !defined(__x86_64__) /* the other half of a file for both processors of macOS */
    #undef BUILT
    #define BUILT IS_BUILT(baseline)
    #endif
    #define IS_BUILT(set) extern const struct isa roicy_##set[2];
    BUILT
    #undef IS_BUILT
    #define IS_BUILT(set) {#set, roicy_##set},
    static const struct built { const char *name; const struct isa *tables; } built_tables[] = {
        BUILT
    };
    #define BUILT_COUNT (sizeof built_tables / sizeof *built_tables)
    """
    ctypedef struct BuiltTables "struct built":
        const char *name
        const Isa *tables

    const BuiltTables *built_tables
    Py_ssize_t BUILT_COUNT


def built():
    """The instruction sets that this build has tables of, best first."""
    cdef Py_ssize_t i
    return [built_tables[i].name.decode() for i in range(BUILT_COUNT)]


def use(str name):
    """Have calls from now on use an instruction set, which the processor must have."""
    global isa_tables
    isa_tables = built_tables[built().index(name)].tables


def in_use():
    """The instruction set that calls use."""
    cdef Py_ssize_t i
    for i in range(BUILT_COUNT):
        if built_tables[i].tables == isa_tables:
            return built_tables[i].name.decode()

"""
The machine code of the kernels: NVRTC compiles it, and a CPU runs it and counts.

NVIDIA's disassembler spells the code as text.  This file decodes the text to numbers, and
machine.cpp runs them.  An instruction that it does not know is an error.
"""

import ctypes
import importlib.util
import os
import re
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
ARCHITECTURE = "sm_90"
OPS = (
    "IADD3 IMAD LEA LOP3 SHF ISETP VIADD VIMNMX VIADDMNMX SEL IABS POPC FLO BREV PRMT MOV HFMA2 "
    "FADD FMUL FFMA FSEL FMNMX FSETP FCHK DADD DMUL DFMA DSETP I2F F2I F2F FRND VOTE MATCH SHFL "
    "R2UR MUFU S2R LDC PLOP3 R2P P2R LDG STG LDS STS NOP BSSY BREAK BRA CALL BRX RET BSYNC "
    "WARPSYNC BRADIV EXIT UNKNOWN"
).split()
ALIASES = {
    "UIADD3": "IADD3", "UIMAD": "IMAD", "ULEA": "LEA", "ULOP3": "LOP3", "USHF": "SHF",
    "UISETP": "ISETP", "USEL": "SEL", "UMOV": "MOV", "ULDC": "LDC", "S2UR": "S2R", "CS2R": "S2R",
    "VOTEU": "VOTE", "I2FP": "I2F", "UPLOP3": "PLOP3", "UPOPC": "POPC", "UFLO": "FLO",
    "UBREV": "BREV", "UPRMT": "PRMT", "IMNMX": "VIMNMX",
}  # fmt: skip
TYPES = {"U32": 0, "S32": 1, "U64": 2, "S64": 3, "F32": 4, "F64": 5}
ROUNDS = {"RN": 0, "RZ": 1, "TRUNC": 1, "RP": 2, "CEIL": 2, "RM": 3, "FLOOR": 3}
LT, EQ, GT, UNORDERED = 1, 2, 4, 8
COMPARES = {
    "LT": LT, "LE": LT | EQ, "GT": GT, "GE": GT | EQ, "EQ": EQ, "NE": LT | GT,
    "NUM": LT | EQ | GT, "NAN": UNORDERED,
}  # fmt: skip
# Names are those of the structures in machine.cpp.
SOURCE = np.dtype(
    [("kind", "u1"), ("negative", "u1"), ("absolute", "u1"), ("inverted", "u1"), ("index", "u2"),
     ("bank", "u2"), ("value", "u8")]
)  # fmt: skip
INSTRUCTION = np.dtype(
    [
        ("op", "u2"), ("dst", "u2"),
        *((name, "u1") for name in (
            "guard guard_not wide high extended ftz from to compare either round bytes".split()
        )),
        ("dst_predicates", "u1", 2), ("predicates", "u1", 4), ("predicates_not", "u1", 4),
        ("uniform", "u1"), ("barrier", "u1"), ("target", "i4"), ("address_register", "u2"),
        ("address_uniform", "u2"), ("offset", "i8"), ("source", SOURCE, 4),
    ],
    align=True,
)  # fmt: skip
RZ, URZ, PT = 255, 319, 7
FLOATS = ("FADD", "FMUL", "FFMA", "FSEL", "FMNMX", "FSETP", "FCHK", "MUFU")
DOUBLES = ("DADD", "DMUL", "DFMA", "DSETP")
STORES = ("STG", "STS", "BRA", "BRX", "EXIT", "BSSY", "BSYNC", "BREAK", "CALL", "RET", "NOP")
STORES += ("WARPSYNC", "BRADIV", "R2P", "UNKNOWN")
PREDICATES_FIRST = {"ISETP": 2, "FSETP": 2, "DSETP": 2, "PLOP3": 2, "FCHK": 1}


def register(text):
    """Return the number of a register, of the lanes or of the warp (from 256 on), or None."""
    match = re.fullmatch(r"(UR|R)(\d+|Z)(?:\.64)?(?:\.U32)?", text.replace(".reuse", ""))
    if match is None:
        return None
    if match[2] == "Z":
        return URZ if match[1] == "UR" else RZ
    return int(match[2]) + (256 if match[1] == "UR" else 0)


def predicate(text):
    """Return (number, whether it is negated) of a predicate, or None."""
    match = re.fullmatch(r"(!?)(U?)P([0-6T])", text)
    if match is None:
        return None
    return (PT if match[3] == "T" else int(match[3])) + (8 if match[2] else 0), bool(match[1])


def immediate(text, op):
    """Return the bits of a number."""
    if re.fullmatch(r"[+-]?0x[0-9a-f]+", text):
        return int(text, 16) % 2**64
    value = float(text.replace("QNAN", "nan").replace("+INF", "inf").replace("-INF", "-inf"))
    if op in DOUBLES or op in ("F2I", "F2F", "FRND"):
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    if op == "HFMA2":
        return int(np.float16(value).view(np.uint16))
    return int(np.float32(value).view(np.uint32))


def read_address(text, row):
    """Decode the inside of [...], which is a sum of registers and a number."""
    row["address_register"], row["address_uniform"] = RZ, URZ
    for part in re.split(r"\+(?=[^+])", text.replace("+-", "+~")):
        number = register(part)
        if number is None:
            row["offset"] += int(part.replace("~", "-"), 16)
        else:
            row["address_uniform" if number >= 256 else "address_register"] = number


def read_source(token, op, source, row):
    """Decode a source operand."""
    source["negative"] = token.startswith("-") and not re.match(r"-[\d0QI]", token)
    source["inverted"] = token.startswith("~")
    source["absolute"] = "|" in token
    text = token.replace("|", "") if "|" in token else token
    text = text[1:] if source["negative"] or source["inverted"] else text
    constant = re.fullmatch(r"c\[(0x[0-9a-f]+)\]\[(.*)\]", text)
    number = register(text)
    if constant:
        source["kind"], source["bank"] = 3, int(constant[1], 16)
        read_address(constant[2], row)
        if row["address_register"] == RZ and op != "LDC":
            source["value"], row["offset"] = row["offset"], 0
    elif number is not None:
        source["kind"], source["index"] = 1, number
    else:
        bits = immediate(text, op)
        # A double of an instruction holds the upper half of its bits.
        source["kind"], source["value"] = 2, bits


def modifiers(op, base, rest, row):
    """Decode what follows the dots of the name of an instruction."""
    types = [TYPES[name] for name in rest if name in TYPES]
    for name in rest:
        if name in ROUNDS:
            row["round"] = ROUNDS[name]
        if op in PREDICATES_FIRST:
            row["compare"] |= COMPARES.get(name, 0)
            if name.endswith("U") and name[:-1] in COMPARES:
                row["compare"] |= COMPARES[name[:-1]] | UNORDERED
    row["ftz"], row["high"] = "FTZ" in rest, "HI" in rest or "SH" in rest
    row["extended"], row["either"] = "X" in rest or "EX" in rest, "OR" in rest
    row["wide"] = "WIDE" in rest or "64" in rest or base == "CS2R" or "RCP64H" in rest
    row["from"] = types[-1] if types else TYPES["S32"]
    row["to"] = TYPES["F32"]
    if op in ("I2F", "F2I"):
        integers = [kind for kind in types if kind < 4] or [TYPES["S32"]]
        real = TYPES["F64"] if "F64" in rest else TYPES["F32"]
        row["from"], row["to"] = (integers[0], real) if op == "I2F" else (real, integers[0])
    elif op in ("F2F", "FRND"):
        row["to"], row["from"] = (types[0], types[-1]) if types else (TYPES["F32"],) * 2
    elif op == "LEA":
        row["from"] = TYPES["S32"] if "SX32" in rest else TYPES["U32"]
    elif op == "SHF":
        row["compare"] = LT if rest[0] == "L" else GT
    elif op == "VOTE":
        row["compare"] = LT if "ALL" in rest else GT
    elif op == "MUFU":
        row["compare"] = LT if rest[0] == "RSQ" else GT
    elif op == "SHFL":
        row["compare"] = {"BFLY": 1, "UP": 2, "DOWN": 4, "IDX": 0}[rest[0]]
    sizes = {"64": 8, "128": 16}
    row["bytes"] = next((sizes[name] for name in rest if name in sizes), 4)
    if op in ("LDG", "STG", "LDS", "STS"):
        row["wide"] = op in ("LDG", "STG")
        if {"U8", "S8", "U16", "S16"} & set(rest):
            raise ValueError(f"{base}.{'.'.join(rest)}: expected words of 4 bytes and more")


def decode(name, operands, labels):
    """Return the record of an instruction from its text."""
    base, *rest = name.split(".")
    if name == "BRA.DIV":
        base, rest = "BRADIV", []
    op = ALIASES.get(base, base)
    if op not in OPS or "COLLECTIVE" in rest:
        op = "UNKNOWN"
    row = np.zeros((), INSTRUCTION)
    row["op"], row["dst"] = OPS.index(op), RZ
    row["predicates"] = row["dst_predicates"] = PT
    row["address_register"], row["address_uniform"] = RZ, URZ
    row["uniform"] = base.startswith("U") or base in ("S2UR", "R2UR", "VOTEU")
    modifiers(op, base, rest, row)
    operands = re.sub(r"\(\*.*?\*\)", "", operands)
    tokens = [token.strip() for token in operands.split(",") if token.strip()]
    if op == "UNKNOWN":
        return row
    tokens = [part for token in tokens for part in re.split(r"(?<=\w) (?=[-`])", token)]
    read_operands(op, tokens, labels, row)
    if op == "LDC":
        row["source"][0]["value"] = 0
    return row


def read_operands(op, tokens, labels, row):
    wanted = PREDICATES_FIRST.get(op, 2 if op not in STORES else 0)  # predicates it may write
    has_dst = op not in STORES and op not in PREDICATES_FIRST
    sources = inputs = written = 0
    for token in tokens:
        found = predicate(token)
        if found and wanted > written and not sources and (op in PREDICATES_FIRST or not inputs):
            row["dst_predicates"][written] = found[0]
            written += 1
            # A vote reads the second predicate.
            wanted = 1 if op == "VOTE" else wanted
        elif found:
            row["predicates"][inputs], row["predicates_not"][inputs] = found
            inputs += 1
        elif token.startswith("`"):
            row["target"] = labels[token[2:-1]]
        elif token.startswith("desc[") or token.startswith("["):
            read_address(token[token.rindex("[") + 1 : -1], row)
        elif re.fullmatch(r"B\d+", token):
            row["barrier"] = int(token[1:])
        elif token == "PR":
            pass
        elif token.startswith("SR"):
            known = {"SR_TID.X": 1, "SR_CTAID.X": 2, "SRZ": 0, "SR_CgaCtaId": 0}
            row["source"][0]["value"] = known[token]
        elif has_dst:
            row["dst"], has_dst = register(token), False
        elif op in ("STG", "STS"):
            row["dst"] = register(token)
        elif op == "BRX" and sources == 1:
            row["offset"] = int(token, 16)
        elif op != "BRADIV" and not (op == "WARPSYNC"):
            read_source(token, op, row["source"][sources], row)
            sources += 1


def sections(cubin):
    """Return the sections of an ELF file by their names."""
    table = struct.unpack_from("<Q", cubin, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(count)]
    texts = headers[names]

    def name(header):
        start = texts[4] + header[0]
        return cubin[start : cubin.index(b"\0", start)].decode()

    return {name(h): cubin[h[4] : h[4] + h[5]] for h in headers if h[1] != 8}


def parameters(info):
    """Return (offset, size) of the parameters of a kernel, from its section .nv.info."""
    found, at = {}, 0
    while at + 4 <= len(info):
        form, kind, size = struct.unpack_from("<BBH", info, at)
        if (form, kind) == (4, 0x17):
            _, number, offset, flags = struct.unpack_from("<IHHI", info, at + 4)
            found[number] = offset, flags >> 18
        at += 4 + (size if form == 4 else 0)
    return [found[number] for number in sorted(found)]


def compile_kernels(source, options, names):
    """Return the machine code of kernels, their mangled names and the compiler's report."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"roicy.cu", 0, [], [])
    for name in names:
        nvrtc.nvrtcAddNameExpression(program, name.encode())
    options = [
        *options,
        f"--gpu-architecture={ARCHITECTURE}",
        "--ptxas-options=-v",
        "-lineinfo",
        "-ftz=true",  # CuPy adds it
    ]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
    nvrtc.nvrtcGetProgramLog(program, log)
    if error:
        raise RuntimeError(log.decode())
    cubin = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
    nvrtc.nvrtcGetCUBIN(program, cubin)
    lowered = {name: nvrtc.nvrtcGetLoweredName(program, name.encode())[1] for name in names}
    return cubin, {name: value.decode() for name, value in lowered.items()}, log.decode()


def disassembler():
    """Return the path of nvdisasm, from NVIDIA's package or from the path, or None."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else ():
        for path in Path(folder).glob("*/bin/nvdisasm"):
            return str(path)
    return None


def read_code(text):
    """Return instructions (name, operands, guard, line), and labels with numbers, by kernel."""
    kernels, lines, labels, of_source = {}, None, None, 0
    for line in text.splitlines():
        section = re.match(r"\.text\.(\S+):$", line)
        if section:
            lines, labels = kernels.setdefault(section[1], ([], {}))
        marked = re.match(r'\s*//## File ".*", line (\d+)', line)
        if marked:
            of_source = int(marked[1])
        label = re.match(r"\s*([.$\w]+):$", line)
        if label and lines is not None:
            labels[label[1]] = len(lines)
        found = re.match(
            r"\s+/\*[0-9a-f]+\*/\s+(?:@(!?U?P\w) )?\s*([A-Z]\S*)\s*(.*?)\s*(?:\(\*.*)?;?$", line
        )
        if found:
            assert int(line.split("*")[1], 16) == 16 * len(lines), line
            lines.append((found[2], found[3], found[1] or "PT", of_source))
    return kernels


class Kernel:
    """A kernel that runs on this CPU: its instructions, constants, and counts of the last run."""

    def __init__(self, lines, labels, constants, wanted):
        self.text = lines
        self.code = np.array([decode(name, rest, labels) for name, rest, *_ in lines], INSTRUCTION)
        for row, (_, _, guard, _) in zip(self.code, lines, strict=True):
            row["guard"], row["guard_not"] = predicate(guard)
        self.constants = constants
        self.wanted = wanted
        self.labels = labels


class Launch(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_void_p), ("counts", ctypes.c_void_p), ("constants", ctypes.c_void_p * 8),
        ("all", ctypes.c_void_p), ("length", ctypes.c_int32), ("blocks", ctypes.c_int32),
        ("threads", ctypes.c_int32),
    ]  # fmt: skip


COUNTS = ("global_requests", "global_sectors", "shared_requests", "shared_wavefronts", "lanes")


class Machine:
    """All kernels, and the program that runs them."""

    def __init__(self, source, options, names):
        cubin, lowered, self.log = compile_kernels(source, options, names)
        found = sections(cubin)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "kernels.cubin")
            path.write_bytes(cubin)
            ended = subprocess.run(
                [disassembler(), "-c", "-g", path], capture_output=True, text=True, check=True
            )
            library = Path(folder, "machine.so")
            compiler = os.environ.get("CXX", "g++").split()
            subprocess.run(
                [*compiler, "-O3", "-march=native", "-std=c++20", "-shared", "-fPIC", "-Wall",
                 "-ffp-contract=off", "-frounding-math", f"-DOPS={','.join(OPS)}",
                 FOLDER / "machine.cpp", "-o", library],
                check=True,
            )  # fmt: skip
            self.library = ctypes.CDLL(str(library))
        self.source = source.splitlines()
        self.library.run.restype = ctypes.c_char_p
        assert self.library.sizes(0) == INSTRUCTION.itemsize, self.library.sizes(0)
        assert self.library.sizes(1) == ctypes.sizeof(Launch)
        self.code, self.sections, self.lowered = read_code(ended.stdout), found, lowered
        self.kernels = {}

    def kernel(self, name):
        if name not in self.kernels:
            mangled = self.lowered[name]
            lines, labels = self.code[mangled]
            self.kernels[name] = Kernel(
                lines, labels, self.sections.get(f".nv.constant2.{mangled}", b""),
                parameters(self.sections[f".nv.info.{mangled}"]),
            )  # fmt: skip
        return self.kernels[name]

    def run(self, name, blocks, threads, arguments):
        """Run a kernel, and return its counts.  Arguments are bytes."""
        kernel = self.kernel(name)
        bank = bytearray(0x210 + 4096)
        struct.pack_into("<I", bank, 0, threads)
        struct.pack_into("<I", bank, 0xC, blocks)
        for value, (offset, size) in zip(arguments, kernel.wanted, strict=True):
            assert len(value) == size, (name, len(value), size)
            bank[0x210 + offset : 0x210 + offset + size] = value
        memory = [
            np.frombuffer(bank, np.uint8),
            np.frombuffer(kernel.constants + bytes(8), np.uint8),
        ]
        counts, totals = np.zeros(len(kernel.code), np.uint64), np.zeros(len(COUNTS), np.uint64)
        launch = Launch(
            kernel.code.ctypes.data, counts.ctypes.data, (ctypes.c_void_p * 8)(),
            totals.ctypes.data, len(kernel.code), blocks, threads,
        )  # fmt: skip
        launch.constants[0], launch.constants[2] = (array.ctypes.data for array in memory)
        error = self.library.run(ctypes.byref(launch))
        if error:
            number = re.search(r"number (\d+)", error.decode())
            text = kernel.text[int(number[1])][:2] if number else ""
            raise RuntimeError(f"{name}: {error.decode()} {text}")
        found = dict(zip(COUNTS, map(int, totals), strict=True))
        return found | {"instructions": int(counts.sum()), "each": counts}

    def by_line(self, name, counts):
        """Return lines of the source with the instructions that a run has spent on each."""
        spent = {}
        for (*_, line), many in zip(self.kernel(name).text, counts, strict=True):
            spent[line] = spent.get(line, 0) + int(many)
        return "\n".join(
            f"{spent[line]:>12} {self.source[line - 1]}" for line in sorted(spent) if spent[line]
        )

    def resources(self):
        """Return registers, bytes of shared memory, spills and instructions of each kernel."""
        result = {}
        for name, mangled in self.lowered.items():
            report = self.log.split(f"entry function '{mangled}'")[1].split("Compiling")[0]
            result[name] = {
                "registers": int(re.search(r"Used (\d+) registers", report)[1]),
                "shared": int((re.search(r"(\d+) bytes smem", report) or "00")[1]),
                "spills": sum(map(int, re.findall(r"(\d+) bytes spill", report))),
                "code": len(self.code[mangled][0]),
            }
        return result

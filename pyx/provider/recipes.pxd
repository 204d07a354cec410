"""Recipes: what a group computes in runs of the same extents, without Python.

Python makes a recipe in the first of these runs (roicy/onnxruntime/_recipe.py).  It has stages that
copy or combine numbers, and between them a call of deformable attention.  A group keeps the last
few of its recipes, of which each run takes the one that fits.
"""
from libc.stdint cimport int16_t, int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

from arrays cimport number_at
from attention.structs cimport Attention
from errors cimport Error
from provider.abi cimport Group, Status
from provider.calls cimport say, say_overlap, status_of
from provider.functions cimport FAIL
from provider.python cimport forget
from provider.tensors cimport (
    Tensor, open_output, overlapped, read_input, size_of, start_session_team)
from roicy._kernels.attention cimport compute_attention
from roicy._kernels.isa cimport isa_tables
from simd.structs cimport pages_alloc, pages_free
from threads cimport Team, share_tasks

cdef extern from "<pythread.h>" nogil:      # locks that need no Python
    ctypedef void *PyThread_type_lock
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock lock)
    int PyThread_acquire_lock(PyThread_type_lock lock, int waits)
    void PyThread_release_lock(PyThread_type_lock lock)

cdef enum:
    MOST_AXES = 8                  # of a stage: _recipe.py
    ROW = MOST_AXES - 1            # the last axis, along which the inner loops go
    KEPT = 4                       # recipes of a group
    NUMBERS_AT_ONCE = 1 << 15      # numbers that a thread makes at a time              # no record

cdef enum:                         # operations: _recipe.py
    COPY
    ADD
    DIVIDE
    MULTIPLY
    SUBTRACT


cdef struct Place:                 # where an array lies
    int64_t buffer                 # the number of an input; then come the output and scratch
    int64_t dtype                  # NumPy's character
    int64_t offset                 # in bytes, as strides
    int64_t[MOST_AXES] strides     # of the last axes, and zeros before them


cdef struct Stage:
    int64_t operation
    int64_t[MOST_AXES] extents
    Place to                       # without gaps in a row, but for copies that are not rounded
    Place one
    Place other                    # not of COPY


cdef struct Recipe:                # these numbers, in this order, and what functions below find
    int64_t users                  # the list of recipes, and runs
    int64_t inputs
    int64_t keys                   # numbers that tell for which runs it is
    int64_t rank                   # of the output
    int64_t before, after          # stages before attention, and after it
    int64_t scratch                # bytes
    int64_t images, pixels, queries, heads, points, channels
    Place value, locations, weights, out


cdef struct Recipes:
    PyThread_type_lock lock        # of all that changes
    Recipe *kept[KEPT]
    int next                       # the place of the next one that is made
    int threads
    Py_ssize_t inputs
    size_t places[1]               # of inputs among those of ONNX Runtime


cdef struct StageCall:
    const Stage *stage
    const Tensor *tensors
    Py_ssize_t rows, some          # rows in all, and of a task


# --- What follows a recipe

cdef inline const int64_t *keys_of(const Recipe *recipe) noexcept nogil:
    """For each input its rank, its extents, and how many numbers follow that it has to consist of.
    """
    return <const int64_t*>(recipe + 1)


cdef inline const int64_t *extents_of(const Recipe *recipe) noexcept nogil:
    """The extents of the output."""
    return keys_of(recipe) + recipe.keys


cdef inline const Stage *stages_of(const Recipe *recipe) noexcept nogil:
    return <const Stage*>(extents_of(recipe) + recipe.rank)


cdef inline const char *levels_of(const Recipe *recipe) noexcept nogil:
    """Scales of x and y, and then width, height and first pixel, of the level of each point."""
    return <const char*>(stages_of(recipe) + recipe.before + recipe.after)


cdef inline Recipe *recipe_of(bytes numbers) except NULL:
    cdef Py_ssize_t size = len(numbers), of_point
    cdef Recipe *recipe = <Recipe*>malloc(size)
    if recipe == NULL:
        raise MemoryError(f"no room for a recipe of {size} bytes")
    memcpy(recipe, <const char*>numbers, size)
    of_point = 2 * size_of(<int>recipe.out.dtype) + 3 * sizeof(int32_t)
    if levels_of(recipe) + recipe.points * of_point != <const char*>recipe + size:
        free(recipe)
        raise AssertionError("a recipe has other numbers than struct Recipe")
    return recipe


# --- Steps

cdef inline void copy_row(
        const Stage *stage, Py_ssize_t count, char *to, const char *one) noexcept nogil:
    cdef int old = <int>stage.one.dtype, new = <int>stage.to.dtype
    cdef Py_ssize_t size = size_of(new), i = 0
    cdef Py_ssize_t a = stage.to.strides[ROW], b = stage.one.strides[ROW]
    if old == new and a == size and b == size:
        memcpy(to, one, count * size)
    elif old == new and size == sizeof(int16_t):
        for i in range(count):
            (<int16_t*>(to + i * a))[0] = (<const int16_t*>(one + i * b))[0]
    elif old == new and size == sizeof(int32_t):
        for i in range(count):
            (<int32_t*>(to + i * a))[0] = (<const int32_t*>(one + i * b))[0]
    elif old == new:
        for i in range(count):
            (<int64_t*>(to + i * a))[0] = (<const int64_t*>(one + i * b))[0]
    elif new == c'e':
        isa_tables.simd.narrow(<const float*>one, new, count, to)
    elif new == c'd':
        for i in range(count):
            (<double*>(to + i * a))[0] = number_at(one + i * b, old)
    elif old == c'e' and a == size and b == size_of(old):
        isa_tables.simd.widen_runs(one, old, 0, 0, 1, 1, count, <float*>to)
    else:
        for i in range(count):
            (<float*>(to + i * a))[0] = <float>number_at(one + i * b, old)


cdef inline void combine(
        int64_t operation, Py_ssize_t count, float *to, const float *one, Py_ssize_t a,
        const float *other, Py_ssize_t b) noexcept nogil:
    cdef Py_ssize_t i
    if operation == ADD:
        for i in range(count):
            to[i] = one[i * a] + other[i * b]
    elif operation == DIVIDE:
        for i in range(count):
            to[i] = one[i * a] / other[i * b]
    elif operation == MULTIPLY:
        for i in range(count):
            to[i] = one[i * a] * other[i * b]
    else:
        for i in range(count):
            to[i] = one[i * a] - other[i * b]


cdef inline void make_row(
        const Stage *stage, Py_ssize_t count, char *to, const char *one,
        const char *other) noexcept nogil:
    cdef const float *x = <const float*>one
    cdef const float *y = <const float*>other
    cdef Py_ssize_t size = sizeof(float)
    cdef Py_ssize_t a = stage.one.strides[ROW] // size, b = stage.other.strides[ROW] // size
    if stage.operation == COPY:
        copy_row(stage, count, to, one)
    elif a == 1 and b == 1:        # the compiler makes vectors of it
        combine(stage.operation, count, <float*>to, x, 1, y, 1)
    else:
        combine(stage.operation, count, <float*>to, x, a, y, b)


cdef inline char *start_of(const Place *place, const Tensor *tensors) noexcept nogil:
    return tensors[place.buffer].data + place.offset


cdef inline void make_rows(const void *given, Py_ssize_t task, char *scratch) noexcept nogil:
    """Make the rows of a task."""
    cdef const StageCall *call = <const StageCall*>given
    cdef const Stage *stage = call.stage
    cdef Py_ssize_t first = task * call.some, left = first, _
    cdef int64_t[ROW] index
    cdef char *to = start_of(&stage.to, call.tensors)
    cdef const char *one = start_of(&stage.one, call.tensors)
    cdef const char *other = start_of(&stage.other, call.tensors)
    cdef int axis
    for axis in range(ROW - 1, -1, -1):
        index[axis] = left % stage.extents[axis]
        left //= stage.extents[axis]
        to += index[axis] * stage.to.strides[axis]
        one += index[axis] * stage.one.strides[axis]
        other += index[axis] * stage.other.strides[axis]
    for _ in range(min(call.some, call.rows - first)):
        make_row(stage, stage.extents[ROW], to, one, other)
        for axis in range(ROW - 1, -1, -1):
            index[axis] += 1
            to += stage.to.strides[axis]
            one += stage.one.strides[axis]
            other += stage.other.strides[axis]
            if index[axis] < stage.extents[axis]:
                break
            to -= index[axis] * stage.to.strides[axis]
            one -= index[axis] * stage.one.strides[axis]
            other -= index[axis] * stage.other.strides[axis]
            index[axis] = 0


cdef inline void make_stage(
        const Stage *stage, const Tensor *tensors, int threads, Team *team) noexcept nogil:
    cdef StageCall call
    cdef Py_ssize_t tasks
    cdef int axis
    call.stage, call.tensors, call.rows = stage, tensors, 1
    for axis in range(ROW):
        call.rows *= stage.extents[axis]
    call.some = NUMBERS_AT_ONCE // stage.extents[ROW] + 1
    tasks = (call.rows + call.some - 1) // call.some
    share_tasks(
        &call, tasks, <int>min(tasks, <Py_ssize_t>threads), NULL, 0, make_rows, team)


# --- A run

cdef inline bint fits(const Recipe *recipe, const Tensor *inputs) noexcept nogil:
    """Whether a recipe is for a run of these inputs."""
    cdef const int64_t *key = keys_of(recipe)
    cdef size_t extents
    cdef Py_ssize_t i
    for i in range(recipe.inputs):
        extents = inputs[i].rank * sizeof(int64_t)
        if key[0] != <int64_t>inputs[i].rank or memcmp(key + 1, inputs[i].extents, extents) != 0:
            return False
        key += 1 + key[0]
        if key[0] > 0 and memcmp(key + 1, inputs[i].data, key[0] * sizeof(int64_t)) != 0:
            return False
        key += 1 + key[0]
    return True


cdef inline Attention attention_of(const Recipe *recipe, const Tensor *tensors) noexcept nogil:
    cdef Attention call
    cdef Py_ssize_t size = size_of(<int>recipe.out.dtype), points = recipe.points
    cdef const char *levels = levels_of(recipe)
    memset(&call, 0, sizeof(call))
    call.pixels, call.queries, call.heads = recipe.pixels, recipe.queries, recipe.heads
    call.points, call.channels, call.shift = points, recipe.channels, 0.5
    call.value, call.locations = (
        start_of(&recipe.value, tensors), start_of(&recipe.locations, tensors))
    call.weights, call.out = start_of(&recipe.weights, tensors), start_of(&recipe.out, tensors)
    call.image = recipe.value.strides[ROW - 3] // size
    call.pixel = recipe.value.strides[ROW - 2] // size
    call.head = recipe.value.strides[ROW - 1] // size
    call.scale_x, call.scale_y = levels, levels + points * size
    call.width = <const int32_t*>(levels + 2 * points * size)
    call.height, call.start = call.width + points, call.width + 2 * points
    return call


cdef inline Status carry_out(
        const Recipe *recipe, Tensor *tensors, int threads, void *context) noexcept nogil:
    """Follow a recipe, when the output and scratch are there."""
    cdef const Stage *stage = stages_of(recipe)
    cdef Attention call = attention_of(recipe, tensors)
    cdef Team team
    cdef Error error
    cdef Py_ssize_t i
    start_session_team(&team, context)
    for i in range(recipe.before):
        make_stage(stage + i, tensors, threads, &team)
    if compute_attention(&call, recipe.images, size_of(<int>recipe.out.dtype), threads, &team,
                         &error) < 0:
        return status_of(&error)
    for i in range(recipe.before, recipe.before + recipe.after):
        make_stage(stage + i, tensors, threads, &team)
    return NULL


cdef inline Status compute_recipe(
        const Recipe *recipe, Tensor *tensors, int threads, void *context) noexcept nogil:
    cdef Tensor *made = tensors + recipe.inputs
    cdef Status status
    cdef Py_ssize_t same
    if not open_output(context, 0, extents_of(recipe), recipe.rank, made, &status):
        return status
    same = overlapped(made, tensors, recipe.inputs)
    if same >= 0:
        return say_overlap(same)
    made[1].data = <char*>pages_alloc(recipe.scratch)
    if made[1].data == NULL:
        return say(FAIL, "no memory for what is computed before deformable attention")
    status = carry_out(recipe, tensors, threads, context)
    pages_free(made[1].data)
    return status


cdef inline Tensor *read_all(
        const Recipes *recipes, void *context, bint *known, Status *status) noexcept nogil:
    """The inputs, and room for output and scratch; NULL with a status.  known: whether all have
    types that recipes are for.
    """
    cdef Tensor *tensors = <Tensor*>calloc(recipes.inputs + 2, sizeof(Tensor))
    cdef Py_ssize_t i
    if tensors == NULL:
        status[0] = say(FAIL, "no memory for what is known of the inputs")
    known[0] = tensors != NULL
    for i in range(recipes.inputs):
        known[0] = known[0] and read_input(context, recipes.places[i], &tensors[i], status)
    return tensors


# --- Recipes that are kept

cdef inline void release(Recipe *recipe) noexcept nogil:
    """Say that one more user is gone.  Whoever calls it has the lock."""
    if recipe != NULL:
        recipe.users -= 1
        if recipe.users == 0:
            free(recipe)


cdef inline Recipe *take(Recipes *recipes, const Tensor *inputs) noexcept nogil:
    """The recipe that fits, for one more user; NULL if there is none."""
    cdef Recipe *found = NULL
    cdef int i
    PyThread_acquire_lock(recipes.lock, True)
    for i in range(KEPT):
        if found == NULL and recipes.kept[i] != NULL and fits(recipes.kept[i], inputs):
            found = recipes.kept[i]
            found.users += 1
    PyThread_release_lock(recipes.lock)
    return found


cdef inline void keep(Recipes *recipes, Recipe *recipe) noexcept nogil:
    """Keep a new recipe, which has a user already, instead of the oldest."""
    PyThread_acquire_lock(recipes.lock, True)
    release(recipes.kept[recipes.next])
    recipes.kept[recipes.next] = recipe
    recipe.users += 1
    recipes.next = (recipes.next + 1) % KEPT
    PyThread_release_lock(recipes.lock)


cdef inline void give_back(Recipes *recipes, Recipe *recipe) noexcept nogil:
    PyThread_acquire_lock(recipes.lock, True)
    release(recipe)
    PyThread_release_lock(recipes.lock)


# Has Python compute a group, or make a recipe, which has one user then.
ctypedef Status (*InPython)(void *computation, void *context, Recipe **recipe) noexcept nogil


cdef inline Status compute_by_recipe(
        Recipes *recipes, void *computation, void *context, InPython in_python) noexcept nogil:
    """Compute a group by a recipe, which Python makes if there is none, or in Python."""
    cdef Recipe *recipe = NULL
    cdef Status status = NULL
    cdef bint known
    cdef Tensor *tensors = read_all(recipes, context, &known, &status)
    if status == NULL and known:
        recipe = take(recipes, tensors)
    if status == NULL and recipe == NULL:
        status = in_python(computation, context, &recipe)
        if recipe != NULL:         # and so all inputs are known
            keep(recipes, recipe)
    if recipe != NULL:
        status = compute_recipe(recipe, tensors, recipes.threads, context)
        give_back(recipes, recipe)
    free(tensors)
    return status


cdef inline void *recipes_of(object computation) except NULL:
    """An empty list of recipes, for a group that Python computes or plans."""
    cdef Py_ssize_t count = len(computation.indices), i
    cdef Recipes *recipes
    from roicy._machine import _threads
    recipes = <Recipes*>calloc(1, sizeof(Recipes) + count * sizeof(size_t))
    if recipes != NULL:
        recipes.lock = PyThread_allocate_lock()
    if recipes == NULL or recipes.lock == NULL:
        free(recipes)
        raise MemoryError("no room for recipes")
    recipes.threads, recipes.inputs = _threads.resolve(computation.threads), count
    for i in range(count):
        recipes.places[i] = computation.indices[i]
    return recipes


cdef inline void release_recipes(Recipes *recipes) noexcept nogil:
    cdef int i
    if recipes != NULL:
        for i in range(KEPT):
            release(recipes.kept[i])
        PyThread_free_lock(recipes.lock)
        free(recipes)


cdef inline void release_groups(void *ep, void **groups, size_t count) noexcept nogil:
    cdef size_t i
    for i in range(count):
        if groups[i] != NULL:
            forget((<Group*>groups[i]).computation)
            free((<Group*>groups[i]).node)
            release_recipes(<Recipes*>(<Group*>groups[i]).recipes)
            free(groups[i])
            groups[i] = NULL

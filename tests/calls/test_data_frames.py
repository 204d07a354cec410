"""Boxes of tables: columns that hold numbers only are taken, also those that come as objects."""

import decimal

import numpy as np
import pytest
from conftest import assert_same_bits

import roicy
from roicy.compat import onnx

X = np.random.default_rng(2).random((2, 3, 12, 10), np.float32)
FRAMES = np.arange(2 * 8 * 9 * 3, dtype=np.uint8).reshape(2, 8, 9, 3)
ROWS = np.array([[0, 1, 2, 5, 6.5], [1, 0.25, 3, 8, 7], [1, 2, 0, 4, 4]])
NAMES = ["image", "x1", "y1", "x2", "y2"]
MASKS = np.ones((3, 4, 4), np.float32)


def column(rows):
    """Return a column of lists, as NumPy reads it: an array of objects, one for each row."""
    array = np.empty(len(rows), object)
    for k, row in enumerate(rows):
        array[k] = row
    return array


def objects(rows):
    """Yield rows as arrays of objects, which is how NumPy reads some tables."""
    yield rows.astype(object)
    yield column(rows)
    yield column(rows.tolist())
    yield column([column(row) for row in rows.tolist()])
    yield column(rows)[:, None]
    numbers = [[decimal.Decimal(number) for number in row] for row in rows.tolist()]
    yield np.array(numbers, object)


def of_pandas(rows):
    """Yield tables of pandas whose numbers come as objects."""
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    table = pandas.DataFrame(rows, columns=NAMES[-rows.shape[1] :])
    for dtype in ("Float64", "Float32", "float64[pyarrow]", "float32[pyarrow]", object):
        yield table.astype(dtype)
    yield table.convert_dtypes()
    yield table.convert_dtypes(dtype_backend="pyarrow")
    yield table.astype({"x1": "Float64"})
    yield pandas.Series(rows.tolist())
    yield pandas.Series(list(rows), index=range(7, 7 + len(rows)))
    lists = pyarrow.list_(pyarrow.float64())
    yield pandas.Series(rows.tolist(), dtype=pandas.ArrowDtype(lists))
    yield pandas.DataFrame({"box": rows.tolist()})
    decimals = pyarrow.decimal128(9, 5)
    yield table.astype(pandas.ArrowDtype(decimals))


def of_polars(rows):
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    boxes = polars.Series("box", rows.tolist())
    yield boxes
    yield boxes.cast(polars.List(polars.Float32))
    yield boxes.cast(polars.Array(polars.Float64, rows.shape[1]))
    yield boxes.to_frame()
    yield polars.DataFrame(rows).cast(polars.Decimal(9, 5))
    yield pyarrow.array(rows.tolist())
    yield pyarrow.chunked_array([rows.tolist()])
    yield pyarrow.table({"box": rows.tolist()})


@pytest.fixture(params=[objects, of_pandas, of_polars])
def forms(request):
    return request.param


def test_rows(forms):
    """Tables are the array of their numbers: rows with an image, with counts, or of one image."""
    pooled, cut = roicy.roi_align(X, ROWS, 2), roicy.crop(FRAMES, ROWS, 3)
    grad = np.ones_like(pooled)
    gradient = roicy.roi_align_backward_boxes(grad, X, ROWS)
    for table in forms(ROWS):
        assert_same_bits(roicy.roi_align(X, table, 2), pooled)
        assert_same_bits(roicy.roi_align_backward_boxes(grad, X, table), gradient)
        assert_same_bits(roicy.crop(FRAMES, table, 3), cut)
    corners, counts = ROWS[:, 1:], np.array([1, 2])
    pasted = roicy.paste_masks(MASKS, corners, (9, 8))
    resized = roicy.crop_and_resize(X, corners / 8, [0, 1, 1], 2)
    for table in forms(corners):
        for given in (counts, counts.astype(object), WithObjects(counts)):
            assert_same_bits(roicy.roi_align(X, table, 2, boxes_num=given), pooled)
        assert_same_bits(roicy.crop(FRAMES, table, 3, boxes_num=counts), cut)
        assert_same_bits(roicy.paste_masks(MASKS, table, (9, 8)), pasted)
        nodes = onnx.RoiAlign(X, table, WithObjects(np.array([0, 1, 1])))
        assert_same_bits(nodes, onnx.RoiAlign(X, corners, [0, 1, 1]))
    for table in forms(corners / 8):
        found = roicy.crop_and_resize(X, table, np.array([0, 1, 1], object), 2)
        assert_same_bits(found, resized)


class WithObjects:
    """A column of integers that may lack some, as pandas 2 gives it to NumPy."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array.astype(object)


def test_lists_of_tables(forms):
    """A list has the table of each image; no rows are no boxes."""
    parts = [ROWS[:0, 1:], ROWS[1:, 1:]]
    pooled, cut = roicy.roi_align(X, parts, 2), roicy.crop(FRAMES, parts, 3)
    for table in forms(ROWS[1:, 1:]):
        for listed in ([table[:0], table], [[], table], [np.array([]), table]):
            assert_same_bits(roicy.roi_align(X, listed, 2), pooled)
            assert_same_bits(roicy.crop(FRAMES, listed, 3), cut)
    for table in forms(ROWS):
        assert roicy.roi_align(X, table[:0], 2).shape == (0, 3, 2, 2)
        assert roicy.crop(FRAMES, table[:0], 3).shape == (0, 3, 3, 3)


def test_other_boxes():
    """Corners, matrices and rotated boxes are in columns, too."""
    corners = np.array([[[1, 1], [6, 1], [6, 5], [1, 5.5]], [[0, 0], [4, 0], [4, 4], [0, 4]]])
    turned = np.array([[0, 4, 4, 3, 2, 0.5], [0, 5, 3, 2, 2, 0.25]])
    for boxes in (corners, turned, np.array([[[1, 0, 2], [0, 1, 0.5]]])):
        lists, right = boxes.tolist(), roicy.crop(FRAMES[0], boxes, 3)
        for rows in (column(boxes), column(lists), column([column(row) for row in lists])):
            assert_same_bits(roicy.crop(FRAMES[0], rows, 3), right)
    right = roicy.roi_align_rotated(X, turned, 2)
    assert_same_bits(roicy.roi_align_rotated(X, turned.astype(object), 2), right)


CALLS = [
    lambda boxes: roicy.roi_align(X, boxes, 2),
    lambda boxes: roicy.crop(FRAMES, boxes, 2),
    lambda boxes: roicy.crop_and_resize(X, boxes, [0] * 3, 2),
    lambda boxes: roicy.paste_masks(MASKS, boxes, (9, 8)),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("value", [None, "4", True, 1j, [4], "NA"])
def test_what_is_no_number(call, value):
    """The error names the row."""
    table = ROWS.astype(object)
    if value == "NA":
        value = pytest.importorskip("pandas").NA
    table[2, 3] = value
    message = rf"boxes\[2\]\[3\]: .*{type(value).__name__}, expected a number"
    for rows in (table, column(table.tolist()), column(table), column(table)[:, None], list(table)):
        with pytest.raises(TypeError, match=message):
            call(rows)


def test_an_array_that_holds_itself():
    array = np.empty(3, object)
    array[:] = [array] * 3
    for call in CALLS:
        with pytest.raises(TypeError, match=r"boxes\[0\]"):
            call(array)


def test_rows_that_are_none():
    short = column([*ROWS.tolist()[:2], [1]])
    for call in CALLS:
        with pytest.raises(ValueError, match=r"boxes\[2\]: 1 numbers, expected 5, as boxes\[0\]"):
            call(short)
        with pytest.raises(TypeError, match=r"boxes\[1\]: builtins\.NoneType, expected a row"):
            call(column([ROWS[0], None]))
        with pytest.raises(TypeError, match="boxes: dtype object, expected"):
            call(np.array(None))
    for wrong in ([1, None, 2], [1, "2"], [0.5, 1]):
        with pytest.raises(TypeError, match="boxes_num: dtype .*, expected integers"):
            roicy.roi_align(X, ROWS[:, 1:], 2, boxes_num=np.array(wrong, object))

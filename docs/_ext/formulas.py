"""The formulas of the reference, in TeX: one or a few for each function."""

from roicy import _table

MEAN = (
    r"\mathrm{out}_{kcpq} = \frac{1}{g_y g_x} \sum_{i,\,j} f_{%s}(y_{pi},\, x_{qj}),"
    r"\quad f \text{: the bilinear surface}"
)
SAMPLES = (
    r"y_{pi} = lo_y + p\,b_h + \left(i + \frac{1}{2}\right) \frac{b_h}{g_y},"
    r"\quad i = 0, \dots, g_y - 1",
    r"x_{qj} = lo_x + q\,b_w + \left(j + \frac{1}{2}\right) \frac{b_w}{g_x},"
    r"\quad j = 0, \dots, g_x - 1",
)
ROTATED = (
    r"y_{ij} = \mathrm{yy}\, \cos(t) - \mathrm{xx}\, \sin(t) + c_y",
    r"x_{ij} = \mathrm{yy}\, \sin(t) + \mathrm{xx}\, \cos(t) + c_x",
    r"\mathrm{yy} = -\frac{h}{2} + p\,b_h + \left(i + \frac{1}{2}\right) \frac{b_h}{g_y},"
    r"\quad i = 0, \dots, g_y - 1",
    r"\mathrm{xx} = -\frac{w}{2} + q\,b_w + \left(j + \frac{1}{2}\right) \frac{b_w}{g_x},"
    r"\quad j = 0, \dots, g_x - 1",
    r"\mathrm{out}_{kcpq} = \frac{1}{g_y g_x} \sum_{i,\,j} f_c(y_{ij},\, x_{ij}),"
    r"\quad f \text{: the bilinear surface}",
)
CORNERS = (
    r"y = y_1 (H - 1) + p\, \frac{(y_2 - y_1)(H - 1)}{P_H - 1}",
    r"x = x_1 (W - 1) + q\, \frac{(x_2 - x_1)(W - 1)}{P_W - 1}",
)
INTEGRAL = r"""\mathrm{out}_{kcpq} = \frac{1}{b_h b_w}
    \int_{y_1 + p\,b_h}^{y_1 + (p + 1) b_h} \int_{x_1 + q\,b_w}^{x_1 + (q + 1) b_w}
    f_{%s}(y, x)\, dx\, dy"""
OWN = r"(c P_H + p) P_W + q"  # the channel of a bin that has channels of its own
CELLS = (
    r"lo_y + \lfloor p\,b_h \rfloor \le y < lo_y + \lceil (p + 1)\, b_h \rceil",
    r"lo_x + \lfloor q\,b_w \rfloor \le x < lo_x + \lceil (q + 1)\, b_w \rceil",
)
SURFACE = r"""f_c(y, x) = \sum_{i,\,j} \mathrm{input}_{ncij}\,
    \max(0, 1 - |y - i|)\, \max(0, 1 - |x - j|)"""
BY_INPUT = r"""\frac{\partial L}{\partial \mathrm{input}_{n,\,%s,\,y,\,x}} =
    \sum_{%s} W_{kpy}\, W_{kqx}\, \frac{\partial L}{\partial \mathrm{out}_{kcpq}},
    \quad W \text{: the weights of the operator}"""
BY_BOXES = r"""\frac{\partial L}{\partial x_1} = \sum_{c,\,p,\,q}
    \frac{\partial L}{\partial \mathrm{out}_{kcpq}}\,
    \frac{\partial\, \mathrm{out}_{kcpq}}{\partial x_1},
    \quad \text{likewise for } y_1, x_2, y_2"""

LEVEL = (
    r"\left\lfloor \mathrm{canonical\_level} + \log_2"
    r" \frac{\sqrt{\mathrm{width} \cdot \mathrm{height}}}{\mathrm{canonical\_scale}}"
    r" + 10^{-6} \right\rfloor"
)


FORMULAS = {
    "roi_align": [(*SAMPLES, MEAN % "c")],
    "roi_align_max": [
        r"\max_{\text{samples}}\; (w_1 v_1 + w_2 v_2 + w_3 v_3 + w_4 v_4)",
        r"\max_{\text{samples}}\; \max(w_1 v_1, w_2 v_2, w_3 v_3, w_4 v_4)",
    ],
    "roi_align_max_backward": [
        r"\frac{\partial L}{\partial v_i} \mathrel{+}= w_i\,"
        r" \frac{\partial L}{\partial \mathrm{out}_{kcpq}}, \quad i = 1, \dots, 4"
    ],
    "prroi_pool": [(INTEGRAL % "c", SURFACE)],
    "ps_prroi_pool": [INTEGRAL % OWN],
    "ps_roi_align": [(MEAN % OWN, *SAMPLES)],
    "roi_pool": [(r"\mathrm{out}_{kcpq} = \max_{y,\,x}\; \mathrm{input}_{ncyx}", *CELLS)],
    "ps_roi_pool": [
        (
            r"\mathrm{out}_{kcpq} = \mathrm{mean}_{y,\,x}\;"
            rf" \mathrm{{input}}_{{n,\,{OWN},\,y,\,x}}",
            *CELLS,
        )
    ],
    "roi_align_rotated": [ROTATED],
    "crop_and_resize": [CORNERS],
    "deformable_attention": [
        r"\mathrm{out}_{nqmd} = \sum_{l,\,p} \mathrm{weights}_{nqmlp}\,"
        r" f_{nlmd}(\mathrm{locations}_{nqmlp}),\quad f \text{: the bilinear surface of a level}"
    ],
    "multiscale_roi_align": [LEVEL],
    "multiscale_roi_align_rotated": [LEVEL],
}
for _row in vars(_table).values():
    if not isinstance(_row, _table.Operator) or _row.box != _table.CORNERS:
        continue
    if _row.reduction is _table.WEIGHTED_SUM:
        _channel_and_bins = (OWN, "k") if _row.position_sensitive else ("c", r"k,\,p,\,q")
        FORMULAS[f"{_row.name}_backward"] = [BY_INPUT % _channel_and_bins]
    if _row.has_box_gradients:
        FORMULAS[f"{_row.name}_backward_boxes"] = [BY_BOXES]
FORMULAS["roi_align_rotated_backward"] = [
    r"\frac{\partial L}{\partial \mathrm{input}_{ncyx}} = \sum_{k,\,p,\,q} W_{kpqyx}\,"
    r" \frac{\partial L}{\partial \mathrm{out}_{kcpq}},"
    r" \quad W \text{: the weights of the operator}"
]

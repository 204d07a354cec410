"""The site: `pip install '.[docs]' && sphinx-build -W -n -b html docs site`.

It is built without a network, and its pages load nothing from other hosts.
"""

import subprocess
import sys
from pathlib import Path

import roicy

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "roicy"
author = "the roicy developers"
copyright = "the roicy developers"
version = release = roicy.__version__


def repository():
    """Return the address of the repository that this checkout came from, if it is on the web."""
    command = ["git", "-C", str(HERE), "remote", "get-url", "origin"]
    try:
        found = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""
    return found.removesuffix(".git") if found.startswith("https://") else ""


extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "docstrings",
    "names",
    "pages",
    "phones",
    "speed",
]
# Pages that the contents list before they are written: they are left out while they are missing.
pages_to_come = []
# Pages that are files of the repository, which also read well there.
pages_of_files = {
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "internals": "pyx/README.md",
    "roadmap": "ROADMAP.md",
    "security": "SECURITY.md",
}

exclude_patterns = ["auto_examples/*.ipynb", "auto_examples/*.py"]
templates_path = ["_templates"]
highlight_language = "text"  # blocks that name no language are drawings and output
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(torch|onnx|dask)\..*")]  # their pages are on other hosts
suppress_warnings = ["config.cache"]  # functions in sphinx_gallery_conf

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_mock_imports = ["torch", "torchvision", "roicy.torch._eager", "roicy.torch._operators"]
autodoc_typehints = "none"  # docstrings name the types
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "auto_examples",
    "backreferences_dir": "generated/examples",  # of which pages of functions have a row
    "doc_module": ("roicy",),
    "reference_url": {"roicy": None},
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1,
    "write_computation_times": False,
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "remove_config_comments": True,
    "show_signature": False,
    "default_thumb_file": str(HERE / "demo.png"),
}

html_theme = "pydata_sphinx_theme"
html_title = "roicy"
html_static_path = ["_static"]
html_css_files = ["roicy.css"]
html_js_files = ["names.js"]
html_math_renderer = "mathml"
html_copy_source = False
html_domain_indices = False  # the general index has the modules
html_show_sourcelink = False
html_sidebars = {"index": [], "search": []}
html_theme_options = {
    "logo": {"text": f"roicy {version}"},
    "icon_links": [
        {"name": "Repository", "url": address, "icon": "fa-solid fa-code-branch"}
        for address in [repository()]
        if address
    ],
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

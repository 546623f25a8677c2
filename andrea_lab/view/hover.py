"""A picture whose parts say what they are when they are pointed at, as a widget around the PNG."""

import base64
from functools import cache
from pathlib import Path

from andrea_lab.view.style import Picture

HERE = Path(__file__).parent / "live"
VIEW = "application/vnd.jupyter.widget-view+json"


@cache
def _widget_class():
    import anywidget
    import traitlets

    class HoverPicture(anywidget.AnyWidget):
        """A PNG, words in its place, and regions [x0, y0, x1, y1, words] in its pixels."""

        _esm = (HERE / "hover.js").read_text(encoding="utf-8")
        _css = (HERE / "hover.css").read_text(encoding="utf-8")
        png = traitlets.Bytes().tag(sync=True)
        words = traitlets.Unicode().tag(sync=True)
        regions = traitlets.List().tag(sync=True)

    return HoverPicture


def shown(picture: Picture) -> dict:
    """What a notebook is given of a picture with regions: the widget, the PNG where there is none, and the words."""
    bundle = {"text/plain": repr(picture), "image/png": base64.b64encode(picture.png).decode()}
    regions = [[*map(float, region[:4]), region[4]] for region in picture.regions]
    widget = _widget_class()(png=picture.png, words=picture.words, regions=regions)
    live = widget._repr_mimebundle_() or {}
    live = live[0] if isinstance(live, tuple) else live
    return {**bundle, VIEW: live[VIEW]} if VIEW in live else bundle

"""Draw docs/images/report.png, the picture in the README, from a report.

    covec demo && python docs/images/make.py covec-demo/report.html

Needs a Chromium on the path, and playwright and pillow from the extra `test`.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).with_name("report.png")


def draw(report: Path) -> None:
    """Take the picture down to the layer curves, in 256 colours: a third of the bytes, and it looks the same."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": 1104, "height": 900}, color_scheme="light", device_scale_factor=1.5)
        page.goto(report.resolve().as_uri())
        bottom = page.evaluate("document.querySelector('section .pair').getBoundingClientRect().bottom")
        shot = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": 1104, "height": bottom + 8})
        chromium.close()
    Image.open(io.BytesIO(shot)).convert("RGB").quantize(256, Image.Quantize.FASTOCTREE).save(PICTURE, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1000} kB")


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "covec-demo/report.html"))

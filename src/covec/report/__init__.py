"""Reports: one self-contained HTML file a study, and what notebooks show.

`write_study` writes the page, `study_fragment` and `vector_fragment` are behind `_repr_html_`.
"""

from __future__ import annotations

from covec.report.pages import study_fragment as study_fragment
from covec.report.pages import vector_fragment as vector_fragment
from covec.report.pages import write_study as write_study

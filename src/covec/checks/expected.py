"""What cannot be kept, with the reasons, by those that are no methods of their own; methods say it in their entries.

A check that stands here has to fail: one that is kept after all fails the tests until it is struck off.
"""

from __future__ import annotations

# Laws that an edit cannot keep: by the name of the edit and the words of the law.
EDITS: dict[str, dict[str, str]] = {
    "add": {"twice is once": "a shift moves as far again when it is made again; what undoes it is the opposite shift"},
    "add keeping the norm": {"twice is once": "a direction that was turned turns further when it is turned again"},
    "attenuate": {
        "gradients flow": "factors are drawn straight from bin to bin, so that a step across the middle of one bends",
        "twice is once": "what an attenuation left may still speak for the concept, and is attenuated again",
    },
    "push signs": {"twice is once": "a push from where the first one led goes as far again"},
    "flow": {"twice is once": "from where a flow led it leads on"},
    "trainable add": {"twice is once": "a shift moves as far again when it is made again"},
    "blend": {"twice is once": "a share of what is left of the way is another step on it"},
    "mix soft concept": {"twice is once": "what has been mixed in makes its own words likelier, and more is mixed in"},
    "replace": {"gradients flow": "what comes out does not depend on what was there, so that the gradient is zero"},
}

# scikit-learn's own checks that a finder cannot pass, by their names.
SCIKIT_LEARN: dict[str, str] = {
    "check_classifier_not_supporting_multiclass": "three labels are refused in words of covec's own, which name them",
    "check_estimators_empty_data_messages": "rows of no width are refused in words of covec's own",
    "check_fit2d_predict1d": "a single row is refused in words of covec's own",
    "check_supervised_y_2d": "labels in one column are taken without a warning: nothing is unclear about them",
}

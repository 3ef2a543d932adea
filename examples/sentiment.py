"""Find praise and complaint in a language model, judge it, see where it fires, and turn it up and down.

    python examples/sentiment.py

Model and sentences come with covec. About a minute on a laptop.
"""

import covec
from covec.concepts.packaged import example_concept


def main(new_tokens=25, **options):
    model = covec.load("smollm2-135m")
    study = covec.study(model, example_concept(), **options)  # 160 pairs of sentences, each pair on one subject
    print(study)  # the verdict first; every figure with its interval and what chance would give

    vector = study.best  # there is one whatever the verdict: read the verdict before using it
    for text in ("The soup was cold and the waiter rude.", "What a wonderful evening!", "The train leaves at nine."):
        print(model.detect(vector, text))

    prompt = "My weekend at the lake was"
    strengths = (-3, 0, 3)  # 1 is the natural difference between praise and complaint, too little to show in a text
    texts = model.generate(
        [prompt] * 3, edits=[vector.add(strength) for strength in strengths], max_new_tokens=new_tokens
    )
    for strength, text in zip(strengths, texts, strict=True):
        print(f"{strength:+d}: {prompt}{text!r}")


if __name__ == "__main__":
    main()

"""Watch a concept while a model chats: its score at every token that is read and written.

    python examples/monitor_chat_with_watch.py

The vector is a difference of means at one block, made in seconds. For a monitor that matters run a study first, and
calibrate it on chats: a vector that was found in plain sentences has its threshold from there.
"""

import covec
from covec.concepts.packaged import example_concept
from covec.detect import calibrate
from covec.find.whitened_difference import WhitenedDifference

SITE = "resid.14"
TURNS = (
    "I love this place! Tell me what makes a holiday perfect.",
    "Everything went wrong today. Why is life so unfair?",
)


def found(model, examples):
    """The concept of `examples` at one site, with a threshold and an aggregator fitted on rows it was not made of."""
    cut = len(examples) * 3 // 4  # between two pairs
    training, held_out = examples.subset(range(cut)), examples.subset(range(cut, len(examples)))
    rows = model.capture(training.inputs, SITE, position="mean")[SITE]
    finder = WhitenedDifference().fit(rows, training.labels, pairs=training.pairs)
    vector = covec.ConceptVector.from_direction(
        "praise", SITE, finder.direction_, finder.mean_positive_, finder.mean_negative_,
        model=model.describe(), method="whitened-difference", read_position="content/mean",
    )  # fmt: skip
    return calibrate(model, vector, held_out, range(len(held_out)))


def main(new_tokens=30):
    model = covec.load("smollm2-135m")
    vector = found(model, example_concept())
    for turn in TURNS:
        with model.watch(vector) as log:
            reply = model.generate([{"role": "user", "content": turn}], max_new_tokens=new_tokens)
        scores = log.table().dropna(subset=["score"])
        read, written = (scores[scores.generated == part] for part in (False, True))
        print(f"user:  {turn}\nmodel: {reply!r}")
        print(f"  mean score of what it read {read.score.mean():+.2f}, of what it wrote {written.score.mean():+.2f}")
        extreme = written.loc[written.score.abs().nlargest(5).index]
        print("  strongest:", ", ".join(f"{row.token!r} {row.score:+.2f}" for row in extreme.itertuples()))


if __name__ == "__main__":
    main()

"""Several concepts at once: one capture, one bank, each the null of the other, and both in one edit.

python examples/several_concepts.py
"""

import covec
from covec.concepts.packaged import example_concept

SUBJECTS = ("The baker", "My sister", "Our teacher", "The old captain", "A neighbour")
ACTIONS = (  # the same deed now and then, so that the two sentences of a pair differ in nothing but their time
    ("walks to the market", "walked to the market"), ("opens the window", "opened the window"),
    ("writes a long letter", "wrote a long letter"), ("sings in the kitchen", "sang in the kitchen"),
    ("drives through the rain", "drove through the rain"), ("forgets the key", "forgot the key"),
    ("buys three lemons", "bought three lemons"), ("paints the fence", "painted the fence"),
    ("waits for the bus", "waited for the bus"), ("reads about whales", "read all about whales"),
    ("sleeps until noon", "slept until noon"), ("tells a story", "told a story"),
)  # fmt: skip


def past():
    """Sentences about the past, each beside the same one about the present."""
    pairs = [(f"{subject} {now}.", f"{subject} {then}.") for subject in SUBJECTS for now, then in ACTIONS]
    return covec.Examples.from_lists([then for _, then in pairs], [now for now, _ in pairs], paired=True, name="past")


def main(new_tokens=25, **options):
    model = covec.load("smollm2-135m")
    concepts = {"praise": example_concept(), "past": past()}
    studies = covec.study(model, concepts, **{"sites": "resid.8:20", "quick": True, **options})
    for name, study in studies.items():
        others = ", ".join(f"{other} {figure}" for other, figure in study.wrong_concepts.items())
        print(f"{study}\nas told by the other concept's vector: {others}\n")  # 0.5 where it knows nothing of this one
        print(f"{name} beyond luck, corrected for having looked for two: p {studies.p_holm[name]:.2g}\n")

    praise, then = (studies[name].best for name in concepts)
    prompt = "Every evening the old man"
    with model.edit(praise.add(2), then.add(2)):
        print(f"praise and past: {prompt}{model.generate(prompt, max_new_tokens=new_tokens)!r}")
    print(f"plain:           {prompt}{model.generate(prompt, max_new_tokens=new_tokens)!r}")


if __name__ == "__main__":
    main()

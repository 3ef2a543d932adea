"""A persona as a concept: the same openings, said by someone cheerful and by someone gloomy.

    python examples/persona_from_templates.py

Rows that share an opening are one group, so that the vector is tested on openings it has not seen. The persona stands
in the text, so that a bag of words tells the two apart as well as any vector can. What counts here is whether the model
*uses* the direction, and what it writes without any persona in its prompt.
"""

import covec
from covec.concepts.packaged import neutral_prompts

PERSONAS = [
    ("I am a cheerful person who loves life.", "I am a gloomy person who hates life."),
    ("As always, I was in a wonderful mood.", "As always, I was in a terrible mood."),
]


def main(openings=50, new_tokens=25, **options):
    model = covec.load("smollm2-135m")
    examples = covec.Examples.from_templates(PERSONAS, neutral_prompts()[:openings], name="cheerful")
    study = covec.study(model, examples, **{"sites": "resid.8:20", "position": "last", **options})
    print(study)

    prompts = ["This morning I looked out of the window and", "When my neighbour came to visit, I"]
    for prompt in prompts:
        for strength in (-2, 2):
            with model.edit(study.best.add(strength)):
                print(f"{strength:+d}: {prompt}{model.generate(prompt, max_new_tokens=new_tokens)!r}")


if __name__ == "__main__":
    main()

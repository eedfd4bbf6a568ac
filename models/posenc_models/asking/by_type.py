"""A rotary model whose types of layers differ is asked once, and each type answers for its own cosines and sines."""

from dataclasses import replace

from posenc.ports import Feeds
from posenc.strict_json import parse
from posenc_models.asking.model import Answer, OwnModel, Question
from posenc_models.asking.rotary import model_in, probe, traced_model
from posenc_models.config.read import Reading


def model_of(question: Question) -> OwnModel:
    """Return the cosines and sines of each type of layers in question, under the names of our outputs.

    Raises CannotAsk, in one line, where the model cannot be built, or no layer of a type rotates.
    """
    questions = _by_type(question)
    trace, loaded = traced_model(questions[0])
    models = []
    for of_type in questions:
        # the answer for the type before ended the call at its own layer
        probe(trace, of_type)
        models.append(model_in(trace, loaded.library, of_type))

    def call(feeds: Feeds) -> Answer:
        return {name: values for model in models for name, values in model.call(feeds).items()}

    names = zip(questions, models, strict=True)
    words = "; ".join(f"{of_type.layer_type}: {model.words}" for of_type, model in names)
    # nearly all models rotate all types by one function
    if len({model.words for model in models}) == 1:
        words = models[0].words
    note = "; ".join(dict.fromkeys(model.note for model in models if model.note))
    return OwnModel(words, loaded.library, call, note=note, amplitude=max(model.amplitude for model in models))


def _by_type(question: Question) -> list[Question]:
    """Return a question for each type of layers, about its two outputs."""
    parameters = question.reading.parameters
    types = parse(str(parameters["layer_types"]))
    assert isinstance(types, dict)
    shared = {key: value for key, value in parameters.items() if key != "layer_types"}
    questions = []
    for i, (name, values) in enumerate(types.items()):
        reading = Reading("rope", {**shared, **values}, question.reading.origin)
        outputs = question.outputs[2 * i : 2 * i + 2]
        questions.append(replace(question, layer_type=name, reading=reading, outputs=outputs))
    return questions

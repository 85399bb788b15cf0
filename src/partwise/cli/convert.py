"""`partwise convert`: models from and to the formats of other programs."""

from __future__ import annotations

from typing import Annotated

import typer


def convert(
    source: Annotated[str, typer.Argument(help="Model file of partwise or of CRFsuite.", metavar="FROM")],
    target: Annotated[str, typer.Argument(help="File to write.", metavar="TO")],
    to: Annotated[
        str | None,
        typer.Option(
            help="partwise or crfsuite; by default crfsuite for a model of partwise, and partwise for others."
        ),
    ] = None,
    encoding: Annotated[
        str, typer.Option(help="Encoding of the names in CRFsuite's file, such as latin-1.")
    ] = "utf-8",
) -> None:
    """Convert a model between the formats of partwise and of CRFsuite.

    FROM is recognised by its first bytes. CRFsuite's format holds chains of order 1 over attributes that users make.
    Models with templates, hashed attributes or forbidden transitions are refused. Weights stay the same to the last
    bit. The converted model does not have what only partwise's format holds: settings and the record of the training.
    """
    from partwise.cli.files import check_paths
    from partwise.cli.options import one_of
    from partwise.errors import InputError
    from partwise.storage.model_file import estimator_from, load_model, save_model
    from partwise.tasks.sequences.crfsuite_model import as_model_file, crfsuite_file, write_crfsuite
    from partwise.tasks.sequences.labeler import SequenceLabeler

    check_paths({"TO": target}, {"FROM": source})
    data = crfsuite_file(source)
    wanted = to or ("crfsuite" if data is None else "partwise")
    one_of("--to", wanted, "partwise", "crfsuite")
    if data is None:
        header, arrays = load_model(source)
    else:
        try:
            header, arrays = as_model_file(data, encoding)
        except InputError as error:
            raise InputError(str(error), source) from None
    estimator = estimator_from(header, arrays, source)
    if wanted == "partwise":
        save_model(target, header, arrays)
    elif isinstance(estimator, SequenceLabeler):
        write_crfsuite(estimator, target, encoding)
    else:
        raise InputError(f"a {type(estimator).__name__} cannot be written in CRFsuite's format", source)
    print(f"model with {len(estimator.classes_)} labels written to {target}, in the format of {wanted}")

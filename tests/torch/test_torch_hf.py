"""Token classifiers of transformers with a CRF, on tiny models with random weights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")
transformers = pytest.importorskip("transformers", reason="an extra: pip install 'partwise[hf]'")

from partwise import InputError  # noqa: E402
from partwise.torch.hf import CRFTokenClassifier, first_pieces, fit_last_layer, scheme_of  # noqa: E402

NAMES = ["O", "B-A", "I-A", "B-B", "I-B"]
SIZES = {
    "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 8, "max_position_embeddings": 16,
}  # fmt: skip
LABELS = {"id2label": dict(enumerate(NAMES)), "label2id": {name: k for k, name in enumerate(NAMES)}}


def config(**options: object) -> object:
    return transformers.BertConfig(**SIZES, **LABELS, **options)


def batch(n: int = 6, seed: int = 0) -> dict:
    torch.manual_seed(seed)
    lengths = torch.randint(4, 10, (n,))
    attended = (torch.arange(9) < lengths[:, None]).long()
    ids = torch.randint(2, 20, (n, 9)) * attended
    labels = torch.where(torch.rand(n, 9) < 0.3, -100, ids % 5)
    labels[:, 0] = -100
    labels[:, 1] = 0
    return {"input_ids": ids, "attention_mask": attended, "labels": labels.masked_fill(attended == 0, -100)}


def model_of(**options: object) -> CRFTokenClassifier:
    torch.manual_seed(1)
    return CRFTokenClassifier(config(), **options).eval()  # type: ignore[arg-type]


def test_the_loss_and_best_labels_of_the_positions_that_count() -> None:
    model, given = model_of(reduction="sum"), batch()
    found = model(**given)
    labels, total, crf = given["labels"], 0.0, model.crf
    for scores, own, best in zip(found.logits, labels, found.predictions, strict=True):
        counts = own != -100
        total = total - crf(scores[counts][None], own[counts][None]).item()
        assert torch.equal(best != -100, counts)
        assert best[counts].tolist() == crf.decode(scores[counts][None])[0]
    assert found.loss.item() == pytest.approx(total, rel=1e-5)
    inputs = {key: given[key] for key in ("input_ids", "attention_mask")}
    decoded = model.train().decode(**inputs, token_mask=labels != -100)
    assert model.training and model(**inputs).predictions is None
    assert decoded == [[NAMES[k] for k in row if k >= 0] for row in found.predictions.tolist()]
    assert [len(row) for row in model.decode(**inputs)] == given["attention_mask"].sum(1).tolist()
    chances = model.marginals(**given)
    assert torch.allclose(chances.sum(2), (labels != -100).float(), atol=1e-5)
    loss, _, predictions = model.eval()(**given, return_dict=False)
    assert loss.item() == pytest.approx(total, rel=1e-5) and torch.equal(predictions, found.predictions)


def test_predictions_are_chunks() -> None:
    model, given = model_of(), batch(40)
    names = model.decode(**given)
    assert any("I-" in name for row in names for name in row)
    for row in names:
        for before, name in zip(["O", *row], row, strict=False):
            assert not name.startswith("I-") or before[1:] == name[1:]
    free = model_of(scheme=None).decode(**given)
    assert free != names
    with pytest.raises(InputError, match="scheme must be one of"):
        model_of(scheme="IOB9")


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    model, given = model_of(loss="hinge", constrain_training=True, reduction="mean"), batch()
    model.save_pretrained(tmp_path)
    again = CRFTokenClassifier.from_pretrained(tmp_path)
    assert again.crf.criterion.loss == model.crf.criterion.loss and again.reduction == "mean"
    assert again.crf.criterion.structure.allowed is not None and not again.training
    for own, other in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
        assert own[0] == other[0] and torch.equal(own[1], other[1])
    assert again.decode(**given) == model.decode(**given)
    assert CRFTokenClassifier.from_pretrained(tmp_path, loss="log").crf.criterion.loss.name == "log"


def test_a_crf_is_put_on_a_model_that_is_loaded(tmp_path: Path) -> None:
    plain = transformers.DistilBertForTokenClassification(
        transformers.DistilBertConfig(
            vocab_size=20, dim=8, n_layers=1, n_heads=2, hidden_dim=8, max_position_embeddings=16
        )
    ).eval()
    plain.save_pretrained(tmp_path)
    model = CRFTokenClassifier.from_pretrained(
        tmp_path, scheme="IOB2", **LABELS, ignore_mismatched_sizes=True
    )
    given = batch()
    expected = plain.distilbert(given["input_ids"], given["attention_mask"]).last_hidden_state
    found = model.eval().model.distilbert(given["input_ids"], given["attention_mask"]).last_hidden_state
    assert torch.equal(found, expected)
    assert model(**given).logits.shape == (6, 9, 5)
    assert model.get_input_embeddings() is model.model.get_input_embeddings()


def test_the_trainer(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="Trainer needs it")
    model = model_of()
    whole = batch(32)
    data = [{key: value[i] for key, value in whole.items()} for i in range(32)]
    before = model(**whole).loss.item()
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=4, per_device_train_batch_size=8, learning_rate=2e-2,
        gradient_checkpointing=True, report_to=[], save_strategy="epoch", save_total_limit=1,
        logging_strategy="no", disable_tqdm=True, use_cpu=True, dataloader_pin_memory=False,
    )  # fmt: skip
    seen = []

    def metrics(evaluated: tuple) -> dict[str, float]:
        (logits, best), labels = evaluated
        seen.append((logits.shape, best.shape))
        return {"right": float((best == labels)[labels != -100].mean())}

    trainer = transformers.Trainer(
        model, arguments, train_dataset=data, eval_dataset=data, compute_metrics=metrics
    )
    trainer.train()
    measured = trainer.evaluate()
    assert measured["eval_loss"] < 0.8 * before and measured["eval_right"] > 0.4
    assert seen == [((32, 9, 5), (32, 9))]
    (folder,) = tmp_path.glob("checkpoint-*")
    again = CRFTokenClassifier.from_pretrained(folder)
    assert again(**whole).loss.item() == pytest.approx(model.eval()(**whole).loss.item(), rel=1e-5)


def test_a_certified_last_layer() -> None:
    model, l2 = model_of(scheme=None), 0.1
    batches = [batch(6, 1), batch(6, 2)]
    batches[0]["labels"][2] = -100
    head = fit_last_layer(model, batches, l2=l2, tol=1e-4)
    assert head.converged
    total = 0.0
    for each in batches:
        known = (each["labels"] != -100).any(1)
        each = {key: value[known] for key, value in each.items()}
        total -= model.crf(model(**each).logits, each["labels"], reduction="sum").item()
    learnt = [model.model.classifier.weight, model.model.classifier.bias, model.crf.transitions]
    total += l2 / 2 * sum(own.square().sum().item() for own in learnt)
    assert total == pytest.approx(head.certificate.primal, rel=1e-4)
    with pytest.raises(InputError, match="batch 0: there are no labels"):
        fit_last_layer(model, [{"input_ids": batches[0]["input_ids"]}])
    model.model.classifier = torch.nn.Identity()
    with pytest.raises(InputError, match="BertForTokenClassification has no linear layer"):
        fit_last_layer(model, batches)


@pytest.mark.parametrize(
    ("names", "scheme"),
    [
        (NAMES, "IOB2"), (["O", "B-X", "I-X", "E-X", "S-X"], "IOBES"), (["O", "B-X", "I-X", "L-X", "U-X"], "BILOU"),
        (["LABEL_0", "LABEL_1"], None), (["O", "I-X"], None), (["B-X", "I-X", "NOUN"], None),
        (["O", "S-X"], "IOBES"), (["O", "X-Y", "B-Y"], None),
    ],
)  # fmt: skip
def test_the_scheme_of_names(names: list[str], scheme: str | None) -> None:
    assert scheme_of(names) == scheme


def test_where_words_begin() -> None:
    vocabulary = {
        word: k for k, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"])
    }
    tokenizer = transformers.BertTokenizerFast(vocab=vocabulary)
    given = tokenizer(
        [["ab", "a", "abb"], ["a"]], is_split_into_words=True, padding=True, return_tensors="pt"
    )
    assert first_pieces(given).int().tolist() == [[0, 1, 0, 1, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0, 0]]


def test_layers_do_not_import_transformers() -> None:
    code = "import sys, partwise.torch; partwise.torch.CRF(3); print('transformers' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"

"""A CRF on top of any token classifier of transformers. Import it by name: nothing else in partwise does.

:class:`CRFTokenClassifier` is a model of transformers: it trains in ``Trainer`` and is saved and loaded as others are.
:func:`fit_last_layer` trains its last layer to a certified optimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from partwise.errors import InputError
from partwise.torch.crf import CRF
from partwise.torch.head import Head, fit_head
from partwise.torch.layouts.kept import Kept

try:
    from transformers import AutoConfig, AutoModelForTokenClassification, PreTrainedModel
    from transformers.modeling_outputs import TokenClassifierOutput
except ImportError as error:  # pragma: no cover - the suite runs with or without transformers
    raise ImportError("partwise.torch.hf needs transformers: pip install 'partwise[hf]'") from error

_OPTIONS = "partwise_crf"  # The name in a model's configuration of the options of its CRF.
_IGNORED = -100  # The label of positions that do not count, as in transformers.


@dataclass
class CRFTokenClassifierOutput(TokenClassifierOutput):
    """What the model returns.

    Attributes
    ----------
    loss : Tensor, if there are labels
    logits : Tensor (B, T, L)
        Scores of labels, before transitions.
    predictions : int64 Tensor (B, T), in evaluation mode
        Best labels, −100 at positions that do not count.
    """

    predictions: torch.Tensor | None = None


class CRFTokenClassifier(PreTrainedModel):
    """A token classifier of transformers with a CRF in place of its softmax.

    Parameters
    ----------
    model : PreTrainedModel or PretrainedConfig
        Any model of ``AutoModelForTokenClassification``, which becomes a part of this one, or its configuration.
        ``config.id2label`` names the labels.
    scheme : {"auto", "IOB1", "IOB2", "IOBES", "BILOU"} or None
        Predictions are well formed chunks under this scheme. "auto" takes it from the names of the labels: IOBES if a
        name starts with "E-" or "S-", BILOU for "L-" or "U-", IOB2 for "B-", otherwise none.
    loss : str
        "log", "hinge", "softmax_margin" or "perceptron".
    constrain_training : bool
        Whether the loss knows the scheme, too. Then true labels may not violate it.
    reduction : {"token_mean", "mean", "sum"}
        Of the loss over a batch. "token_mean" has the scale of a softmax classifier, so that its learning rates hold.

    Attributes
    ----------
    model : PreTrainedModel
    crf : CRF

    Notes
    -----
    Positions that count are, in this order, those of ``token_mask`` if that is given, those whose label is not −100, or
    those of ``attention_mask``. Without labels, give a ``token_mask`` (see :func:`first_pieces`): otherwise special
    tokens and continued words are labelled too. The options are kept in the configuration.

    Examples
    --------
    >>> model = CRFTokenClassifier.from_pretrained("bert-base-cased", id2label=names)  # doctest: +SKIP
    """

    # For Trainer: the loss is a mean over each batch, whatever the number of batches between two steps.
    accepts_loss_kwargs = False
    base_model_prefix = "model"
    # The model within has checked what it supports.
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = _supports_attention_backend = True

    def __init__(
        self,
        model: Any,
        scheme: str | None = "auto",
        loss: str = "log",
        *,
        constrain_training: bool = False,
        reduction: str = "token_mean",
    ):
        is_model = isinstance(model, torch.nn.Module)
        config = model.config if is_model else model
        given: dict[str, Any] = {
            "scheme": scheme, "loss": loss, "constrain_training": constrain_training, "reduction": reduction,
        }  # fmt: skip
        options = given if is_model else {**given, **(getattr(config, _OPTIONS, None) or {})}
        inner = model if is_model else AutoModelForTokenClassification.from_config(config)
        config = inner.config
        super().__init__(config)
        self.model = inner
        self.supports_gradient_checkpointing = self.model.supports_gradient_checkpointing
        names = {int(k): str(name) for k, name in config.id2label.items()}
        if options["scheme"] == "auto":
            options["scheme"] = scheme_of(names.values())
        self.crf = CRF(len(names), batch_first=True, loss=options["loss"])
        if options["scheme"] is not None:
            self.crf.constrain(options["scheme"], names, training=options["constrain_training"])
        self.reduction = options["reduction"]
        setattr(config, _OPTIONS, options)
        if is_model:
            self.crf.to(next(model.parameters()).device)
        else:
            self.post_init()

    @classmethod
    def from_pretrained(cls, name: Any, *arguments: Any, **options: Any) -> CRFTokenClassifier:
        """A model that ``save_pretrained`` wrote, or a CRF with random transitions on any other model.

        Options of this class and of ``AutoModelForTokenClassification.from_pretrained`` are taken.
        """
        own_names = ("scheme", "loss", "constrain_training", "reduction")
        own = {key: options.pop(key) for key in own_names if key in options}
        config = options.get("config")
        if config is None:
            found = ("revision", "cache_dir", "token", "local_files_only", "trust_remote_code", "subfolder")
            config = AutoConfig.from_pretrained(name, **{k: options[k] for k in found if k in options})
        if getattr(config, _OPTIONS, None) is None:
            return cls(AutoModelForTokenClassification.from_pretrained(name, *arguments, **options), **own)
        setattr(config, _OPTIONS, {**getattr(config, _OPTIONS), **own})
        return super().from_pretrained(name, *arguments, **{**options, "config": config})

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        token_mask: torch.Tensor | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> Any:
        """Scores of labels; the loss if there are labels; best labels in evaluation mode.

        Parameters
        ----------
        input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **others
            As the model itself takes them.
        labels : int64 Tensor (B, T), optional
            −100 where none is known.
        token_mask : Tensor of bool (B, T), optional
            The positions that count.
        """
        inputs = {
            "input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids,
            "position_ids": position_ids, "inputs_embeds": inputs_embeds, **others,
        }  # fmt: skip
        inputs = {key: value for key, value in inputs.items() if value is not None}
        found = self.model(**inputs, return_dict=True)
        mask = self._mask(found.logits, attention_mask, labels, token_mask)
        loss = best = None
        if labels is not None:
            loss = -self.crf(found.logits, labels, mask, self.reduction)
        if not self.training:
            best = self.crf.decode(found.logits, mask, pad_tag=_IGNORED)
        result = CRFTokenClassifierOutput(
            loss=loss, logits=found.logits, hidden_states=found.hidden_states,
            attentions=found.attentions, predictions=best,
        )  # fmt: skip
        return result if return_dict is None or return_dict else result.to_tuple()

    @torch.no_grad()
    def decode(self, token_mask: torch.Tensor | None = None, **inputs: Any) -> list[list[str]]:
        """The names of the best labels, at the positions that count. Without dropout."""
        found, names = self._evaluated(token_mask, inputs).predictions.tolist(), self.config.id2label
        return [[names[k] for k in row if k != _IGNORED] for row in found]

    @torch.no_grad()
    def marginals(self, token_mask: torch.Tensor | None = None, **inputs: Any) -> torch.Tensor:
        """Probabilities of the labels (B, T, L), 0 at positions that do not count. Without dropout."""
        found = self._evaluated(token_mask, inputs)
        return self.crf.marginals(found.logits, found.predictions != _IGNORED)

    def _evaluated(self, token_mask: torch.Tensor | None, inputs: dict[str, Any]) -> Any:
        """The output in evaluation mode. Labels only say which positions count."""
        labels = inputs.pop("labels", None)
        if labels is not None:
            known = labels != _IGNORED
            token_mask = known if token_mask is None else known & (token_mask != 0)
        was_training = self.training
        try:
            return self.eval()(**inputs, token_mask=token_mask)
        finally:
            self.train(was_training)

    def _mask(
        self,
        logits: torch.Tensor,
        attention_mask: torch.Tensor | None,
        labels: torch.Tensor | None,
        token_mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """The positions that count, (B, T)."""
        if token_mask is not None:
            mask = token_mask != 0
            return mask if labels is None else mask & (labels != _IGNORED)
        if labels is not None:
            return labels != _IGNORED
        if attention_mask is not None and attention_mask.ndim == 2:
            return attention_mask != 0
        return torch.ones(logits.shape[:2], dtype=torch.bool, device=logits.device)

    def get_input_embeddings(self) -> Any:
        return self.model.get_input_embeddings()

    def set_input_embeddings(self, value: Any) -> None:
        self.model.set_input_embeddings(value)

    def _init_weights(self, module: Any) -> None:
        """For transformers: weights that a file lacks."""
        if isinstance(module, CRF):
            module.reset_parameters()
        else:
            self.model._init_weights(module)


def scheme_of(names: Iterable[str]) -> str | None:
    """The chunk scheme that names of labels are of; None if they are of none."""
    names = list(names)
    prefixes = {name.partition("-")[0] for name in names if "-" in name}
    others = {name for name in names if "-" not in name}
    if not others <= {"O"}:
        return None
    for scheme, known, telling in (
        ("IOB2", "BI", "B"), ("IOBES", "BIES", "ES"), ("BILOU", "BILU", "LU"),
    ):  # fmt: skip
        if prefixes <= set(known) and prefixes & set(telling):
            return scheme
    return None


def first_pieces(encoding: Any, device: Any = None) -> torch.Tensor:
    """Where the words of a batch begin: Boolean (B, T).

    Parameters
    ----------
    encoding : BatchEncoding
        What a fast tokenizer returned for a batch of sentences.
    """
    rows = []
    for i in range(len(encoding["input_ids"])):
        words = encoding.word_ids(i)
        before = [None, *words[:-1]]
        rows.append([word is not None and word != last for word, last in zip(words, before, strict=True)])
    return torch.tensor(rows, dtype=torch.bool, device=device)


class _WordVectors(torch.nn.Module):
    """The inputs of the model's last layer at the positions whose label is not −100, moved to the front."""

    def __init__(self, model: CRFTokenClassifier):
        super().__init__()
        self.model, self.last = model, last_layer(model)

    def forward(self, index: torch.Tensor, **inputs: Any) -> torch.Tensor:
        seen: list[torch.Tensor] = []
        hook = self.last.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        try:
            self.model.model(**inputs)
        finally:
            hook.remove()
        (vectors,) = seen
        return vectors.gather(1, index[:, :, None].expand(*index.shape, vectors.shape[-1]))


def last_layer(model: CRFTokenClassifier) -> torch.nn.Linear:
    """The linear layer that gives the logits."""
    for name in ("classifier", "score", "qa_outputs"):
        found = getattr(model.model, name, None)
        if isinstance(found, torch.nn.Linear) and found.out_features == model.crf.num_tags:
            return found
    raise InputError(f"{type(model.model).__name__} has no linear layer `classifier` that gives the logits")


def fit_last_layer(
    model: CRFTokenClassifier, loader: Iterable[Mapping[str, Any]], l2: float = 1.0, **options: Any
) -> Head:
    """Train the last layer and the transitions to a certified optimum, and put them into the model.

    The rest of the model is frozen. Scores of first and last labels become 0, since the objective has none.

    Parameters
    ----------
    model : CRFTokenClassifier
        Its last layer is a ``Linear`` that gives the logits.
    loader : iterable of mappings
        Batches with `labels`, as ``Trainer`` feeds them. Examples without a label are left out.
    l2, **options
        Of :func:`partwise.torch.fit_head`. The loss is the model's own by default.

    Returns
    -------
    Head
        With the certificate: see :func:`partwise.torch.fit_head`.
    """
    options.setdefault("loss", model.crf.criterion.loss)
    last = last_layer(model)
    head = fit_head(
        _WordVectors(model), _batches(loader, model.device), model.crf.criterion.structure, l2=l2,
        **{"bias": last.bias is not None, **options},
    )  # fmt: skip
    head.load_into(last, model.crf.transitions)
    with torch.no_grad():
        model.crf.start_transitions.zero_()
        model.crf.end_transitions.zero_()
    return head


def _batches(loader: Iterable[Mapping[str, Any]], device: torch.device) -> Iterator[Any]:
    """Batches as `fit_head` reads them."""
    for k, batch in enumerate(loader):
        if "labels" not in batch:
            raise InputError(f"batch {k}: there are no labels")
        known = (batch["labels"] != _IGNORED).any(1)
        if not bool(known.any()):
            continue
        batch = {
            key: value[known.to(value.device)].to(device)
            for key, value in batch.items()
            if isinstance(value, torch.Tensor)
        }
        labels = batch.pop("labels")
        batch.pop("token_mask", None)
        kept = Kept.of(labels != _IGNORED, True)
        yield {"index": kept.index, **batch}, kept.front(labels), kept.lengths

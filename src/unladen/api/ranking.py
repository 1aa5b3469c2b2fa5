"""Ranks texts by how well they answer a query: with a model's classifier, with its yes and no, or
by embeddings."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from unladen.api.reading import Reading
from unladen.api.together import Together
from unladen.errors import GGUFError, InvalidArgument, UnsupportedModel
from unladen.parameters.kinds import Text, items

if TYPE_CHECKING:
    from unladen.engine import Request
    from unladen.engine.ranking import Head, Layer, Rows
    from unladen.gguf import GGUFFile
    from unladen.tokenizer import Tokenizer

TEMPLATE: Final = "tokenizer.chat_template.rerank"
"""The key of the text in which a reranker wants a query and a document: ``{query}`` and
``{document}`` stand for them."""
RANK: Final = 4
"""GGUF's number of ``pooling_type`` for models that rank."""
_SEPARATES: Final = "tokenizer.ggml.add_sep_token"
"""The key of whether a separator stands between two texts."""
_PLACES: Final = re.compile(r"\{(query|document)\}")
_OUT, _DENSE = "cls.output", "cls"
_RELEVANT: Final = frozenset({"yes", "true", "relevant", "positive", "entailment", "label_1", "1"})
"""Labels that say that a document answers a query."""
_YES, _NO = "yes", "no"
_TEXT: Final = Text()


class Ranking(Reading):
    """The methods of a model that rank texts."""

    _file: GGUFFile

    @property
    def metadata(self) -> Mapping[str, object]:
        """The file's metadata."""
        raise NotImplementedError

    def rank(self, query: str, documents: Sequence[str]) -> list[float]:
        """How well each of ``documents`` answers ``query``: higher is better.

        A reranker's classifier gives a number without bounds, or a probability where it has two
        labels. A model that says yes or no gives the probability of yes. Other encoders give the
        cosine between the embeddings of query and document. Raises :class:`InvalidArgument`, also
        for a model that can't rank, :class:`UnsupportedModel` for a classifier of another kind, and
        :class:`ContextOverflow` for a pair that is too long.
        """
        asked = _TEXT.of("query", query)
        texts = [_TEXT.of(f"documents[{i}]", each) for i, each in enumerate(
            items("documents", documents, "a list of texts"))]
        together, scores, _ = self._ranking(asked, texts)
        return scores(together.run())

    @property
    def embeds(self) -> bool:
        """Whether :meth:`embed` gives embeddings; a reranker has none."""
        return "embeddings" in self._outputs() and not self._is_reranker

    @property
    def _is_reranker(self) -> bool:
        return self.architecture.hparams.int("pooling_type", 0) == RANK

    def _outputs(self) -> Collection[str]:
        """The names of what a step returns."""
        return self._used_plan().blueprint.graph.outputs.keys()

    @functools.cached_property
    def ranks_by(self) -> str:
        """What :meth:`rank` uses: "classifier", "yes or no", "embeddings", or "" where the model
        can't rank."""
        outputs = self._outputs()
        if "embeddings" in outputs and self._has_head:
            return "classifier"
        if "logits" in outputs and TEMPLATE in self.metadata and None not in self._answer_ids:
            return "yes or no"
        return "embeddings" if self.embeds else ""

    def _ranking(self, query: str, documents: Sequence[str]
                 ) -> tuple[Together[Any], Callable[[list[Any]], list[float]], int]:
        """What computes the scores of ``documents``, how they follow from its results, and the
        tokens that it reads."""
        match self.ranks_by:
            case "classifier":
                return self._classified(query, documents)
            case "yes or no":
                return self._answered_yes(query, documents)
            case "embeddings":
                from unladen.engine.pooling import chosen, pooled
                ids = self._all_ids("documents", [query, *documents])
                kind = chosen(None, self.architecture.hparams.int("pooling_type", 0))
                kind = "mean" if kind == "none" else kind
                together = self._rows_together(
                    "documents", ids, lambda rows: pooled(rows, kind, normalize=True))
                return together, _cosines, sum(map(len, ids))
        raise InvalidArgument("the model can't rank: it has no classifier for that, and makes no "
                              "embeddings", hint="use a reranker, or a model for embeddings")

    def _classified(self, query: str, documents: Sequence[str]) -> tuple[Any, Any, int]:
        from unladen.api.reading import rows_of
        from unladen.engine.request import Second
        head, row = self._head, self.architecture.second_text()
        pairs = [self._pair(query, each) for each in documents]

        def make(i: int) -> Request:
            request = self._all_logits(pairs[i][0])
            if row is not None:
                request.second = Second(pairs[i][1], row)
            return request

        together = Together(self.engine, len(pairs), make,
                            lambda request: head.score(rows_of(request)), "documents")
        return together, list, sum(len(ids) for ids, _ in pairs)

    def _answered_yes(self, query: str, documents: Sequence[str]) -> tuple[Any, Any, int]:
        """Each pair is a prompt, and the next token is yes or no."""
        from unladen.api.compared import Compared
        from unladen.engine import Request
        from unladen.sample import SamplerChain
        from unladen.tokenizer import StreamDecoder
        yes, no = (int(each) for each in self._answer_ids if each is not None)
        pairs = [self._pair(query, each)[0] for each in documents]
        found: list[list[float]] = [[] for _ in pairs]

        def make(i: int) -> Request:
            chain = SamplerChain().step(Compared(yes, no, found[i]))
            return Request([*pairs[i]], sampler=chain.build(), max_tokens=1,
                           decoder=StreamDecoder(self.tokenizer))

        from unladen.api.stream import result_of
        together = Together(self.engine, len(pairs), make, result_of, "documents")
        return together, lambda _: [scores[-1] for scores in found], sum(map(len, pairs))

    @functools.cached_property
    def _answer_ids(self) -> tuple[int | None, int | None]:
        """The tokens of yes and of no; None where one isn't a single token."""
        found = [self.tokenizer.encode(word, add_special=False, continues=True)
                 for word in (_YES, _NO)]
        yes, no = (ids[0] if len(ids) == 1 else None for ids in found)
        return yes, no

    def _pair(self, query: str, document: str) -> tuple[list[int], int]:
        """The tokens of a query and a document, and where those begin that count as a second text.
        Names of control tokens in them are text."""
        template = self.metadata.get(TEMPLATE)
        if isinstance(template, str):
            ids = _filled(self.tokenizer, template, query, document)
            return ids, len(ids)
        return _joined(self.tokenizer, self.metadata, query, document)

    @property
    def _has_head(self) -> bool:
        tensors = self._file.tensors
        return f"{_OUT}.weight" in tensors or (
            f"{_DENSE}.weight" in tensors and self._is_reranker)

    @functools.cached_property
    def _head(self) -> Head:
        """The model's classifier. Raises :class:`UnsupportedModel` for one that doesn't rank, and
        :class:`GGUFError` for one whose shapes are wrong."""
        from unladen.engine.ranking import Head
        hparams, width = self.architecture.hparams, self.architecture.n_embd
        out, dense = self._layer(_OUT), self._layer(_DENSE)
        if out is None:  # the only layer is the classifier itself
            out, dense = dense, None
        assert out is not None
        n_in = width if dense is None else len(dense.weight)
        for layer, n in ((dense, width), (out, n_in)):
            if layer is not None and layer.weight.shape[1] != n:
                raise GGUFError(f"the classifier takes {layer.weight.shape[1]} numbers, and gets "
                                f"{n}", path=str(self._file.path),
                                hint="the file is damaged or was converted wrongly")
        norm = self._numbers(f"{_DENSE}.norm.weight")
        return Head(out, dense, self.architecture.ranking_act, norm,
                    hparams.float("attention.layer_norm_epsilon", 1e-5),
                    reads_last=self._is_causal, relevant=self._relevant(len(out.weight)))

    @property
    def _is_causal(self) -> bool:
        """Whether tokens see only those before them, so that the last one sees all."""
        return not self._used_plan().blueprint.limits.whole_sequences

    def _relevant(self, n_labels: int) -> int:
        if n_labels == 1:
            return 0
        labels = self.metadata.get(f"{self.architecture.arch}.classifier.output_labels")
        named = [str(label).strip().lower() for label in labels] if isinstance(
            labels, Sequence) and not isinstance(labels, str) else []
        fitting = [i for i, label in enumerate(named) if label in _RELEVANT]
        if n_labels == 2 and len(fitting) == 1 and fitting[0] < n_labels:
            return fitting[0]
        if n_labels == 2 and not named and self._is_causal:
            return 0  # converters of rerankers that say yes or no put yes first
        shown = ", ".join(named) or "without names"
        raise UnsupportedModel(f"the model can't rank: its classifier has {n_labels} labels "
                               f"({shown})", arch=self.architecture.arch,
                               hint="use a reranker, whose classifier has one label, or yes and no")

    def _layer(self, name: str) -> Layer | None:
        from unladen.engine.ranking import Layer
        weight = self._numbers(f"{name}.weight")
        return None if weight is None else Layer(
            weight.reshape(-1, weight.shape[-1]), self._numbers(f"{name}.bias"))

    def _numbers(self, name: str) -> Rows | None:
        tensors = self.architecture.tensors
        return tensors.values(name, *tensors.shape(name)) if name in tensors else None


def _cosines(rows: list[Rows]) -> list[float]:
    query, *others = rows
    return [float(query @ each) for each in others]


def _filled(tokenizer: Tokenizer, template: str, query: str, document: str) -> list[int]:
    """The tokens of ``template`` with both texts in their places."""
    text, plain = "", []
    for i, part in enumerate(_PLACES.split(template)):
        if i % 2:
            chosen = query if part == "query" else document
            plain.append((len(text), len(text) + len(chosen)))
            part = chosen
        text += part
    return tokenizer.encode(text, add_special=False, plain=[each for each in plain
                                                             if each[0] < each[1]])


def _joined(tokenizer: Tokenizer, metadata: Mapping[str, object], query: str, document: str
            ) -> tuple[list[int], int]:
    """The tokens of both texts as encoders are trained on pairs, and where the document begins.

    BERT has a separator behind each text. Others have what the file's flags say: the token that
    ends a text, a separator, or both between the texts, as RoBERTa and its kin have. Old files of
    XLM-RoBERTa lack the flag for the separator.
    """
    ids = tokenizer.token_ids
    end, sep = ids.get("eos", ids.get("sep")), ids.get("sep", ids.get("eos"))
    has_end, has_sep = tokenizer.add_eos, tokenizer.add_sep
    if tokenizer.kind == "bert":
        has_end, has_sep = False, True
    elif tokenizer.kind == "t5" and _SEPARATES not in metadata:
        has_sep = has_end
    marks = [token for token, is_there in ((end, has_end), (sep, has_sep))
             if is_there and token is not None]
    begin = [tokenizer.bos_id] if tokenizer.add_bos and tokenizer.bos_id is not None else []
    asked, said = (tokenizer.encode(text, add_special=False, special=False)
                   for text in (query, document))
    first = [*begin, *asked, *marks]
    return [*first, *said, *marks[:1]], len(first)

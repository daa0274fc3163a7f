"""Words of the explorer in English and Japanese. Japanese terms follow the slides and glossary where they
have one.
"""

from __future__ import annotations

LANGUAGES = ("en", "ja")

#: what a value of a facet is called; a value without an entry is shown with its underscores as spaces
VALUES: dict[str, tuple[str, str]] = {
    "planning": ("planning", "プランニング"),
    "tool_use": ("tool use", "ツール使用"),
    "memory": ("memory", "記憶"),
    "self_improvement": ("self-improvement", "自己改善"),
    "reasoning": ("reasoning", "推論"),
    "perception": ("perception", "知覚"),
    "credit_assignment": ("credit assignment", "信用割当"),
    "collaboration": ("collaboration", "協調"),
    "search": ("search", "検索・調査"),
    "code": ("code", "コード"),
    "mathematics": ("mathematics", "数学"),
    "gui": ("GUI", "GUI"),
    "vision": ("vision", "視覚"),
    "embodied": ("embodied", "身体性"),
    "multi_agent": ("multi-agent", "マルチエージェント"),
    "other": ("other", "その他"),
    "implemented": ("implemented", "実装"),
    "toy_analogue": ("toy analogue", "縮小版"),
    "exercise": ("exercise", "演習"),
    "discussed": ("discussed", "解説"),
    "listed": ("listed only", "掲載のみ"),
    "agent_method": ("agent method", "エージェント手法"),
    "algorithm": ("algorithm", "アルゴリズム"),
    "model": ("model", "モデル"),
    "benchmark": ("benchmark", "ベンチマーク"),
    "framework": ("framework", "フレームワーク"),
    "environment": ("environment", "環境"),
    "memory_system": ("memory system", "記憶システム"),
    "system": ("system", "システム"),
    "concept": ("concept", "概念"),
    "both": ("v3 and list", "v3 とリスト"),
    "v3_only": ("v3 only", "v3 のみ"),
    "list_only": ("list only", "リストのみ"),
    "text": ("text", "本文"),
    "no_table": ("in no table", "表になし"),
    "contradicted": ("contradicted", "反証"),
    "confirmed": ("confirmed", "確認"),
    "refined": ("refined", "精密化"),
    "variant": ("differs by variant", "変種による"),
    "unverified": ("unverified", "未確認"),
    "own_reading": ("own reading", "独自の読み"),
    "as_stated": ("as stated", "記載どおり"),
    "normalised": ("spelling only", "表記のみ"),
    "yes": ("yes", "あり"),
    "no": ("no", "なし"),
    "none": ("none", "なし"),
    "optional": ("optional", "任意"),
    "outcome": ("outcome", "結果"),
    "process": ("process", "過程"),
    "hybrid": ("hybrid", "混合"),
    "preference": ("preference", "選好"),
    "static": ("static", "静的"),
    "interactive": ("interactive", "対話的"),
    "external": ("external", "外部"),
    "internal": ("internal", "内部"),
    "visual": ("images", "画像"),
    "own_tries": ("its own tries", "自身の試行"),
    "pairs": ("pairs", "対"),
    "labels": ("single labels", "単独ラベル"),
}
FACETS: dict[str, tuple[str, str]] = {
    "kind": ("Kind", "種類"),
    "capability": ("Capability", "能力"),
    "task": ("Task", "タスク"),
    "section": ("Section", "節"),
    "coverage": ("In this project", "本プロジェクト"),
    "when": ("First public", "初出"),
    "edition": ("Tables of", "表の版"),
    "status": ("Checked values", "照合"),
    "kl": ("KL penalty", "KL ペナルティ"),
    "clip": ("Clip", "クリップ"),
    "critic": ("Critic", "価値関数"),
    "learns_from": ("Learns from", "学習元"),
    "changes": ("Changes the hook", "変更点"),
    "reward_type": ("Reward", "報酬"),
    "reward_source": ("Reward from", "報酬源"),
    "rl_used": ("Trained with RL", "RL で訓練"),
    "memory_type": ("Kind of memory", "記憶の種類"),
    "knowledge": ("Knowledge", "知識源"),
    "interactivity": ("Environment is", "環境"),
    "paradigm": ("GUI agent by", "GUI の方式"),
    "mas_dynamic": ("Team changes", "チーム可変"),
    "trains_llm": ("LLM is trained", "LLM を訓練"),
    "rl_algorithm": ("Uses algorithm", "使用アルゴリズム"),
    "domain": ("Domain", "領域"),
    "modality": ("Modality", "モダリティ"),
    "framework_type": ("Framework for", "用途"),
}
#: texts of the page itself
TEXTS: dict[str, tuple[str, str]] = {
    "title": ("Atlas of agentic RL", "Agentic RL の地図"),
    "search": ("Search names, ideas, titles", "名前・要点・題名を検索"),
    "clear": ("Clear all", "すべて解除"),
    "shown": ("shown", "件"),
    "of": ("of", "/"),
    "facets": ("Facets", "ファセット"),
    "matrix": ("Capability × task", "能力 × タスク"),
    "sections": ("Sections", "節の構成"),
    "timeline": ("Timeline", "年表"),
    "entries": ("Entries", "一覧"),
    "lineage": ("Lineage", "系譜"),
    "stated": ("Stated and checked", "記載と照合"),
    "chooser": ("Chooser", "選ぶ"),
    "editions": ("Editions", "版の差"),
    "card": ("Card", "カード"),
    "export": ("Save selection", "選択を保存"),
    "copy": ("Copy", "コピー"),
    "copied": ("Copied", "コピー済み"),
    "close": ("Close", "閉じる"),
    "language": ("日本語", "English"),
    "nothing": ("Nothing matches. Take a filter away.", "該当なし。条件を減らしてください。"),
    "in_survey": ("In the survey", "サーベイ内の位置"),
    "relations": ("Relations", "関係"),
    "corrections": ("Corrections", "訂正"),
    "realised": ("In this project", "本プロジェクトでは"),
    "source": ("Source", "ソース"),
    "loss_of": ("Loss, inherited from", "損失 (継承元)"),
    "links": ("Links", "リンク"),
    "name": ("Name", "名前"),
    "year": ("Year", "年"),
    "idea": ("Idea", "要点"),
    "attribute": ("Attribute", "属性"),
    "printed": ("Stated (source)", "記載 (出典)"),
    "value": ("Here", "採用値"),
    "verdict": ("Verdict", "判定"),
    "table": ("Table", "表"),
    "any": ("any", "指定なし"),
    "choose": ("I need", "必要なもの"),
    "why": ("Evidence", "根拠"),
    "path": ("Section", "節"),
    "new_v5": ("New in v5", "v5 で新設"),
    "differs": ("Cells that differ between v3 and the list", "v3 とリストで異なる値"),
    "pick": ("Choose an entry to see its card.", "項目を選ぶとカードが表示されます。"),
    "colour": (
        "blue: share implemented, imitated, used in an exercise or discussed here",
        "青: 実装・縮小・演習・解説の割合",
    ),
    "knob": (
        "grey: what the method changes against its parent; ● implemented ◐ toy ○ discussed · listed",
        "灰: 親から変えた点; ● 実装 ◐ 縮小 ○ 解説 · 掲載",
    ),
    "v3": ("survey v3", "サーベイ v3"),
    "list": ("official list", "公式リスト"),
    "works": ("works", "文献"),
    "before": ("by year", "年単位"),
}
MARKS = {"implemented": "●", "toy_analogue": "◐", "exercise": "◑", "discussed": "○", "listed": "·"}


def word(value: str, lang: str = "en") -> str:
    """What a facet value is called in ``lang``."""
    return VALUES.get(value, (value.replace("_", " "),) * 2)[LANGUAGES.index(lang)]


def facet(name: str, lang: str = "en") -> str:
    """What a facet is called in ``lang``."""
    return FACETS.get(name, (name.replace("_", " "),) * 2)[LANGUAGES.index(lang)]


def text(name: str, lang: str = "en") -> str:
    """A text of the page in ``lang``."""
    return TEXTS[name][LANGUAGES.index(lang)]

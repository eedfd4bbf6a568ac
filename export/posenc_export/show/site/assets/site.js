// Theme, menu and search of every page; without this script a page is whole, and its navigation is open.
"use strict";

(() => {
  const script = document.currentScript;
  const root = script.dataset.root;
  const page = document.documentElement;
  page.classList.add("js");

  // ---- light and dark: the system's, until somebody chooses ----

  const stored = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("posenc-theme");
      localStorage.setItem("posenc-theme", value);
    } catch { /* a page that is opened from a folder may have no storage */ }
    return null;
  };
  const chosen = stored();
  if (chosen === "light" || chosen === "dark") page.dataset.theme = chosen;
  const isDark = () => (page.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

  const startTheme = (button) => {
    const say = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    button.addEventListener("click", () => {
      page.dataset.theme = isDark() ? "light" : "dark";
      stored(page.dataset.theme);
      say();
    });
    say();
    button.hidden = false;
  };

  // ---- the menu of narrow screens ----

  const startMenu = (button, navigation) => {
    const show = (open) => {
      navigation.classList.toggle("open", open);
      button.setAttribute("aria-expanded", String(open));
    };
    button.addEventListener("click", () => show(button.getAttribute("aria-expanded") !== "true"));
    navigation.addEventListener("click", (event) => { if (event.target.closest("a")) show(false); });
    navigation.addEventListener("keydown", (event) => { if (event.key === "Escape") { show(false); button.focus(); } });
    button.hidden = false;
    // only the navigation moves: scrollIntoView would move the page, too
    const here = navigation.querySelector("[aria-current]");
    if (here) navigation.scrollTop = here.offsetTop - navigation.offsetTop - navigation.clientHeight / 3;
  };

  // ---- what scrolls sideways is reached by the keyboard ----

  const markScrolling = () => {
    for (const box of document.querySelectorAll(".scroll, pre")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };

  // ---- search: every word must be there, by its beginning; titles count most ----

  const MOST = 30, AROUND = 60;
  let index = null;

  const load = (then) => {
    if (index) return then();
    if (window.posencIndex) {
      index = window.posencIndex.map(([title, heading, address, words]) => ({
        title, heading, address, words, low: [title, heading, words].map((text) => text.toLowerCase()),
      }));
      return then();
    }
    const element = document.createElement("script");
    element.src = `${root}assets/index.js`;
    element.addEventListener("load", () => load(then), { once: true });
    document.head.append(element);
    return undefined;
  };

  const begins = (text, word) => {
    for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
      if (at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1])) return at;
    }
    return -1;
  };

  const scoreOf = ({ heading, low: [title, head, words] }, query) => {
    let score = heading ? 0 : 0.5;
    for (const word of query) {
      const inTitle = begins(title, word) >= 0, inHead = begins(head, word) >= 0, inWords = begins(words, word) >= 0;
      if (!inTitle && !inHead && !inWords) return 0;
      score += (title === word && !heading ? 40 : 0) + (inTitle ? (heading ? 3 : 10) : 0) + (inHead ? 8 : 0) + (inWords ? 1 : 0);
    }
    return score;
  };

  const find = (query) => index
    .map((part) => ({ part, score: scoreOf(part, query) }))
    .filter(({ score }) => score > 0)
    .sort((one, other) => other.score - one.score);

  /** Put text into an element, the words that were looked for marked; it is never read as markup. */
  const write = (element, text, query) => {
    const low = text.toLowerCase();
    let from = 0;
    while (low.length === text.length) {
      const next = query.map((word) => ({ word, at: begins(low.slice(from), word) })).filter(({ at }) => at >= 0)
        .sort((one, other) => one.at - other.at || other.word.length - one.word.length)[0];
      if (!next) break;
      const mark = document.createElement("mark");
      mark.textContent = text.slice(from + next.at, from + next.at + next.word.length);
      element.append(text.slice(from, from + next.at), mark);
      from += next.at + next.word.length;
    }
    element.append(text.slice(from));
  };

  const snippet = (part, query) => {
    const isWhole = !part.heading && query.some((word) => begins(part.low[0], word) >= 0);
    const places = isWhole ? [0] : query.map((word) => begins(part.low[2], word)).filter((at) => at >= 0);
    const from = Math.max(0, (places.length ? Math.min(...places) : 0) - AROUND);
    const text = part.words.slice(from, from + 3 * AROUND);
    return `${from ? "… " : ""}${text}${from + 3 * AROUND < part.words.length ? " …" : ""}`;
  };

  const row = (part, query) => {
    const item = document.createElement("li"), link = document.createElement("a");
    const head = document.createElement("strong"), below = document.createElement("small");
    link.href = root + part.address;
    write(head, part.heading ? `${part.title} › ${part.heading}` : part.title, query);
    write(below, snippet(part, query), query);
    link.append(head, below);
    item.append(link);
    return item;
  };

  const startSearch = (input, results, found) => {
    const close = () => { results.hidden = true; };
    const show = () => {
      const query = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      if (!query.length) { found.textContent = ""; return close(); }
      const parts = find(query);
      const items = parts.slice(0, MOST).map(({ part }) => row(part, query));
      found.textContent = parts.length ? `${parts.length} ${parts.length === 1 ? "place" : "places"} found` : "Nothing found";
      if (!items.length) {
        const none = document.createElement("li");
        none.className = "none";
        none.textContent = `Nothing found: ${input.value}`;
        items.push(none);
      }
      results.replaceChildren(...items);
      results.hidden = false;
      results.scrollTop = 0;
      return undefined;
    };
    const move = (by) => {
      const links = [...results.querySelectorAll("a")];
      const at = links.indexOf(document.activeElement) + by;
      (at < 0 ? input : links[Math.min(at, links.length - 1)])?.focus();
    };
    input.addEventListener("focus", () => load(() => {}));
    input.addEventListener("input", () => load(show));
    input.parentElement.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { input.value = ""; found.textContent = ""; close(); input.focus(); }
      else if (event.key === "ArrowDown" && !results.hidden) { event.preventDefault(); move(1); }
      else if (event.key === "ArrowUp" && !results.hidden) { event.preventDefault(); move(-1); }
      else if (event.key === "Enter" && event.target === input) results.querySelector("a")?.click();
    });
    input.parentElement.addEventListener("focusout", (event) => {
      if (event.relatedTarget && !input.parentElement.contains(event.relatedTarget)) close();
    });
    document.addEventListener("click", (event) => { if (!input.parentElement.contains(event.target)) close(); });
    results.addEventListener("click", (event) => { if (event.target.closest("a")) close(); });
    document.addEventListener("keydown", (event) => {
      const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
      if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        input.focus();
      }
    });
    input.placeholder = "Search ( / )";
    input.disabled = false;
  };

  document.addEventListener("DOMContentLoaded", () => {
    const by = (name) => document.getElementById(name);
    startTheme(by("theme"));
    startMenu(by("menu"), by("navigation"));
    startSearch(by("query"), by("results"), by("found"));
    markScrolling();
    addEventListener("resize", markScrolling);
    addEventListener("load", markScrolling);
    document.addEventListener("toggle", markScrolling, true);
  });
})();

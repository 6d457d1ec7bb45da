"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // Light and dark.
  const theme = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const nameTheme = () => { theme.textContent = isDark() ? "Light colours" : "Dark colours"; };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  system.addEventListener("change", nameTheme);
  nameTheme();

  // Choosers: selects, blocks, and what can be clicked anywhere on the page. Those of one name show
  // the same choice.
  const choosers = new Map();
  for (const element of document.querySelectorAll(".chooser")) {
    const own = (selector) => [...element.querySelectorAll(selector)].filter(
      (one) => one.closest(".chooser") === element);
    const part = {
      selects: own("select"),
      blocks: new Map(own(".block").map((block) => [block.dataset.block, block])),
      status: own("[role=status]")[0],
    };
    const { name, first } = element.dataset;
    if (!choosers.has(name)) choosers.set(name, { first, choice: null, parts: [] });
    choosers.get(name).parts.push(part);
  }

  // Of the choices that there are, the one that keeps what was just changed and is nearest in the
  // order of the other options.
  function nearest({ selects, blocks }, changed) {
    const wanted = selects.map((one) => one.value);
    if (blocks.has(wanted.join("|"))) return wanted.join("|");
    const options = selects.map((select) => [...select.options].map((one) => one.value));
    const place = (values) => values.map((value, index) => options[index].indexOf(value));
    const goal = place(wanted);
    const apart = (key) => place(key.split("|")).reduce(
      (sum, at, index) => sum + Math.abs(at - goal[index]) * (index === changed ? 1e6 : 1), 0);
    return [...blocks.keys()].reduce((one, two) => (apart(two) < apart(one) ? two : one));
  }

  function showPart({ selects, blocks, status }, choice, announced) {
    for (const [key, block] of blocks) block.hidden = key !== choice;
    const values = choice.split("|");
    selects.forEach((select, index) => { select.value = values[index]; });
    if (announced) {
      status.textContent = `Shown: ${blocks.get(choice).querySelector(".choice").textContent}`;
    }
  }

  const known = (chooser, choice) => chooser.parts.every((part) => part.blocks.has(choice));

  function show(name, choice) {
    const chooser = choosers.get(name);
    if (!chooser || !known(chooser, choice) || chooser.choice === choice) return;
    for (const part of chooser.parts) showPart(part, choice, chooser.choice !== null);
    chooser.choice = choice;
    for (const one of document.querySelectorAll("[data-chooser]")) {
      if (one.dataset.chooser !== name) continue;
      one.setAttribute("aria-pressed", String(one.dataset.choice === choice));
      const row = one.closest("tr");
      if (row) row.classList.toggle("chosen", one.dataset.choice === choice);
    }
  }

  function choose(name, choice) {
    show(name, choice);
    const chosen = new URLSearchParams();
    for (const [one, chooser] of choosers) {
      if (chooser.choice !== chooser.first) chosen.set(one, chooser.choice);
    }
    const words = chosen.toString();
    if (`#${words}` === location.hash || (!words && !location.hash)) return;
    history.pushState(null, "", words ? `#${words}` : location.href.split("#")[0]);
  }

  // A hash without "=" is the name of a section and chooses nothing.
  function follow() {
    const words = location.hash.slice(1);
    if (words && !words.includes("=")) return;
    const chosen = new URLSearchParams(words);
    for (const [name, chooser] of choosers) {
      const wanted = chosen.get(name);
      show(name, wanted && known(chooser, wanted) ? wanted : chooser.first);
    }
  }

  for (const [name, chooser] of choosers) {
    show(name, chooser.first);
    for (const part of chooser.parts) {
      part.selects.forEach((select, index) => {
        select.addEventListener("change", () => choose(name, nearest(part, index)));
      });
    }
  }
  for (const one of document.querySelectorAll("[data-chooser]")) {
    const act = () => choose(one.dataset.chooser, one.dataset.choice);
    one.addEventListener("click", act);
    if (one.tagName !== "BUTTON") one.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      act();
    });
  }
  addEventListener("popstate", follow);
  follow();
})();

/* Long names break behind the signs that join their parts, and nowhere else. */
document.addEventListener("DOMContentLoaded", () => {
  const names = "h1, nav a, .sig-name, .prev-next-title, table code, article p > a code";
  for (const name of document.querySelectorAll(names)) {
    const walker = document.createTreeWalker(name, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const text of texts) {
      const parts = text.data.split(/(?<=\w[_.=(,/])(?=\w)/);
      if (parts.length > 1) {
        const nodes = parts.flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part]));
        text.replaceWith(...nodes);
      }
    }
  }
});

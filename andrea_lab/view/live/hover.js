// A picture whose parts say what they are. The mouse points at a part, or the arrow keys walk through all of them, and
// the line below the picture says the words of that part. The picture itself is one PNG, drawn in Python.

const HINT = "Point at a part of the picture, or focus it and use the arrow keys.";
const LEAST = 6; // pixels on the screen: a thinner part can be pointed at all the same

function render({ model, el }) {
  const image = document.createElement("img");
  const url = URL.createObjectURL(new Blob([model.get("png")], { type: "image/png" }));
  image.src = url;
  image.alt = model.get("words");

  const frame = document.createElement("div");
  frame.className = "frame";
  const stage = document.createElement("div");
  stage.className = "stage";
  stage.tabIndex = 0;
  stage.setAttribute("role", "group");
  stage.setAttribute("aria-label", `Picture with ${model.get("regions").length} parts; the arrow keys walk through them`);
  stage.append(image, frame);

  const said = document.createElement("p");
  said.setAttribute("aria-live", "polite");
  const root = document.createElement("div");
  root.className = "andrea-hover";
  root.append(stage, said);
  el.append(root);

  const regions = model.get("regions");
  let chosen = -1;

  function choose(index) {
    chosen = index;
    const region = regions[index];
    said.textContent = region ? region[4] : HINT;
    said.className = region ? "said" : "said hint";
    root.dataset.andreaRegion = region ? index : "";
    frame.style.display = region ? "block" : "none";
    if (!region) return;
    // Shares of the picture, so that the frame stays in place when the page gives the picture another width.
    const [x0, y0, x1, y1] = region;
    const wide = image.naturalWidth, high = image.naturalHeight;
    frame.style.left = `${(100 * x0) / wide}%`;
    frame.style.top = `${(100 * y0) / high}%`;
    frame.style.width = `${(100 * (x1 - x0)) / wide}%`;
    frame.style.height = `${(100 * (y1 - y0)) / high}%`;
  }

  // The region under a point of the screen: of several the one named last, which lies on top; near a thin one, that.
  function at(event) {
    const box = image.getBoundingClientRect();
    const scale = image.naturalWidth / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    const inside = ([x0, y0, x1, y1]) => {
      const dx = Math.max(0, LEAST * scale - (x1 - x0)) / 2, dy = Math.max(0, LEAST * scale - (y1 - y0)) / 2;
      return x >= x0 - dx && x < x1 + dx && y >= y0 - dy && y < y1 + dy;
    };
    return regions.findLastIndex(inside);
  }

  stage.addEventListener("pointermove", (event) => {
    const index = at(event);
    if (index !== chosen) choose(index);
  });
  stage.addEventListener("pointerdown", (event) => choose(at(event)));
  stage.addEventListener("pointerleave", () => choose(-1));
  stage.addEventListener("blur", () => choose(-1));
  stage.addEventListener("keydown", (event) => {
    const last = regions.length - 1;
    const to = {
      ArrowRight: chosen < last ? chosen + 1 : 0,
      ArrowDown: chosen < last ? chosen + 1 : 0,
      ArrowLeft: chosen > 0 ? chosen - 1 : last,
      ArrowUp: chosen > 0 ? chosen - 1 : last,
      Home: 0,
      End: last,
      Escape: -1,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation(); // the notebook would move to the next cell
    choose(to);
  });
  choose(-1);
  return () => URL.revokeObjectURL(url);
}

export default { render };

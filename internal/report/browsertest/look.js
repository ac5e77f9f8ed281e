// Run in the page: returns what is hard to read, too wide, or in each other's way.
() => {
  const faults = [], seen = new Set();
  const fault = text => { if (!seen.has(text)) { seen.add(text); faults.push(text) } };
  const parse = c => {
    const m = (c || '').match(/rgba?\(([^)]+)\)/);
    if (!m) return [0, 0, 0, 0];
    const v = m[1].split(/[ ,/]+/).filter(x => x).map(parseFloat);
    return [v[0], v[1], v[2], v.length > 3 ? v[3] : 1];
  };
  const over = (top, below) => {
    const a = top[3];
    return [0, 1, 2].map(i => top[i] * a + below[i] * (1 - a)).concat(1);
  };
  // Relative luminance and contrast: WCAG 2.2, definitions.
  const light = c => {
    const [r, g, b] = c.map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [x, y] = [light(a), light(b)];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  };
  const faded = e => { let o = 1; for (; e && e.nodeType == 1; e = e.parentElement) o *= parseFloat(getComputedStyle(e).opacity); return o };
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const ground = e => {
    const layers = [];
    for (; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), dark ? [18, 18, 18, 1] : [255, 255, 255, 1]);
  };
  const visible = e => e.checkVisibility({ checkOpacity: false, checkVisibilityCSS: true });
  const short = s => s.trim().replace(/\s+/g, ' ').slice(0, 50);
  const where = e => e.closest('figure')?.id || e.closest('section')?.querySelector('h2')?.textContent || e.closest('header,main,details')?.tagName.toLowerCase() || e.tagName.toLowerCase();

  // Texts of the page.
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; n = walk.nextNode();) {
    const e = n.parentElement;
    if (!n.data.trim() || !e || e.closest('svg,style,script') || !visible(e)) continue;
    const s = getComputedStyle(e), back = ground(e), size = parseFloat(s.fontSize);
    const c = contrast(over(parse(s.color), back), back), large = size >= 24 || size >= 18.66 && s.fontWeight >= 700;
    if (c < (large ? 3 : 4.5)) fault(`${where(e)}: "${short(n.data)}" has a contrast of ${c.toFixed(2)}`);
    if (size < 11) fault(`${where(e)}: "${short(n.data)}" is ${size} pixels small`);
  }

  // Wider than the window.
  // A phone's innerWidth grows with a page that is too wide.
  const root = document.documentElement, wide = root.clientWidth;
  if (root.scrollWidth > wide) fault(`the page is ${root.scrollWidth} wide in a window of ${wide}`);
  for (const e of document.body.querySelectorAll('*')) {
    if (e.closest('svg') && e.tagName.toLowerCase() != 'svg' || !visible(e)) continue;
    const r = e.getBoundingClientRect();
    if (r.width && r.right > wide + 1) fault(`${where(e)}: <${e.tagName.toLowerCase()}> reaches ${Math.round(r.right)} in a window of ${wide}: "${short(e.textContent)}"`);
    if (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX == 'hidden') fault(`${where(e)}: <${e.tagName.toLowerCase()}> is cut off: "${short(e.textContent)}"`);
  }

  // Pictures.
  for (const svg of document.querySelectorAll('svg')) {
    if (!visible(svg)) continue;
    const name = where(svg), frame = svg.getBoundingClientRect(), scale = frame.width / svg.viewBox.baseVal.width;
    const blocks = [], texts = [];
    for (const e of svg.querySelectorAll('rect,text,line,path,circle')) {
      const s = getComputedStyle(e), r = e.getBoundingClientRect(), o = faded(e);
      const under = (x, y) => blocks.filter(b => b.r.left <= x && x <= b.r.right && b.r.top <= y && y <= b.r.bottom)
        .reduce((below, b) => over(b.fill, below), ground(svg));
      if (e.tagName == 'rect') {
        const fill = parse(s.fill);
        blocks.push({ r, fill: [...fill.slice(0, 3), fill[3] * o] });
      } else if (e.tagName == 'text') {
        const back = under((r.left + r.right) / 2, (r.top + r.bottom) / 2), fill = parse(s.fill);
        const c = contrast(over([...fill.slice(0, 3), fill[3] * o], back), back), size = parseFloat(s.fontSize) * scale;
        if (c < 4.5) fault(`${name}: "${short(e.textContent)}" has a contrast of ${c.toFixed(2)}`);
        if (size < 10.5) fault(`${name}: "${short(e.textContent)}" is ${size.toFixed(1)} pixels small`);
        if (r.left < frame.left - 1 || r.right > frame.right + 1 || r.bottom > frame.bottom + 1) fault(`${name}: "${short(e.textContent)}" leaves the picture`);
        // The box of a text has room for accents above and descenders below that most lack.
        const trim = r.height * 0.2;
        for (const t of texts) {
          if (r.left < t.right - 1 && t.left < r.right - 1 && r.top + trim < t.bottom && t.top < r.bottom - trim)
            fault(`${name}: "${short(e.textContent)}" stands on "${short(t.text)}"`);
        }
        texts.push({ left: r.left, right: r.right, top: r.top + trim, bottom: r.bottom - trim, text: e.textContent });
      } else if (/^[lwf]\d|limit|rule/.test(e.getAttribute('class') || '')) {
        const paint = parse(s.stroke != 'none' ? s.stroke : s.fill), back = under((r.left + r.right) / 2, (r.top + r.bottom) / 2);
        const c = contrast(over([...paint.slice(0, 3), paint[3] * o], back), back);
        if (c < 3) fault(`${name}: <${e.tagName} class="${e.getAttribute('class')}"> has a contrast of ${c.toFixed(2)}`);
      }
    }
  }
  return faults;
}

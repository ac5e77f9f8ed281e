// Takes what the server sends in place of the part that changes. Without it the page is
// the same, and has to be loaded again.
"use strict";
const part = document.getElementById("part");
const state = document.getElementById("state");
const stream = new EventSource(part.dataset.events);
const put = e => {
  const focused = document.activeElement && part.contains(document.activeElement) ? document.activeElement.id : "";
  part.innerHTML = e.data;
  if (focused && document.getElementById(focused)) document.getElementById(focused).focus();
};
stream.addEventListener("open", () => { state.textContent = "live: what is new appears by itself" });
stream.addEventListener("error", () => { state.textContent = stream.readyState === EventSource.CLOSED ? "no longer live" : "linerate ui does not answer" });
stream.addEventListener("part", put);
stream.addEventListener("now", e => { document.getElementById("now").innerHTML = e.data });
stream.addEventListener("gone", put);
stream.addEventListener("end", () => { stream.close(); state.textContent = ""; document.getElementById("now").innerHTML = "" });

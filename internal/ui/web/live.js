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
stream.addEventListener("error", () => { state.textContent = stream.readyState === EventSource.CLOSED ? "no longer live" : "linerate does not answer: start it again, and load this page" });
stream.addEventListener("part", put);
stream.addEventListener("now", e => { document.getElementById("now").innerHTML = e.data });
stream.addEventListener("gone", put);
stream.addEventListener("end", () => { stream.close(); state.textContent = ""; document.getElementById("now").innerHTML = "" });
// The matrix of many hosts has a pixel for each direction; the table below has the hosts in its order.
const cell = e => {
  if (e.target.id !== "cells") return null;
  const hosts = part.querySelectorAll("td[data-name=host] a");
  const [row, column] = [e.offsetY / e.target.height, e.offsetX / e.target.width].map(at => hosts[Math.floor(at * hosts.length)]);
  return row && column && row !== column ? [row, column] : null;
};
part.addEventListener("mousemove", e => {
  const ends = cell(e);
  if (ends) e.target.title = ends.map(a => a.textContent).join(" to ");
});
part.addEventListener("click", e => {
  const ends = cell(e);
  if (ends) location.href = "path/" + ends.map(a => Number(a.id.slice(2))).sort((a, b) => a - b).join("/");
});

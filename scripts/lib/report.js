// Draws the report's charts with plotly.js, in the colours of the scheme, and saves them.
'use strict';
const figures = JSON.parse(document.getElementById('figures').textContent);
const root = document.documentElement;
const colour = name => getComputedStyle(root).getPropertyValue('--' + name).trim();
function axis(given) {
  return Object.assign({gridcolor: colour('grid'), zerolinecolor: colour('line'), linecolor: colour('line'), tickcolor: colour('line'), automargin: true}, given);
}
function layout(figure) {
  const narrow = window.innerWidth < 600;
  const made = Object.assign({
    height: figure.height, margin: {l: narrow ? 44 : 60, r: narrow ? 10 : 24, t: 8, b: 44}, paper_bgcolor: colour('card'), plot_bgcolor: colour('card'),
    font: {family: getComputedStyle(document.body).fontFamily, size: narrow ? 11 : 12.5, color: colour('ink')},
    legend: {orientation: 'h', x: 0, y: 1.0, yanchor: 'bottom', bgcolor: 'rgba(0,0,0,0)'},
    hoverlabel: {bgcolor: colour('card'), bordercolor: colour('line'), font: {color: colour('ink')}, align: 'left'}, dragmode: narrow ? false : 'zoom',
  }, figure.layout);
  for (const name of Object.keys(made)) if (/^[xy]axis/.test(name)) made[name] = axis(made[name]);
  return made;
}
function save(figure, format) {
  const chart = document.getElementById(figure.id);
  Plotly.downloadImage(chart, {format: format, filename: 'hbmspill-' + figure.id, width: chart.clientWidth, height: chart.clientHeight, scale: format === 'png' ? 2 : 1});
}
async function draw() {
  for (const figure of figures)
    await Plotly.react(figure.id, figure.data, layout(figure), {responsive: true, displaylogo: false, displayModeBar: window.innerWidth < 600 ? false : 'hover', modeBarButtonsToRemove: ['select2d', 'lasso2d', 'toImage', 'sendChartToCloud']});
  root.dataset.drawn = figures.length;
}
for (const figure of figures)
  for (const button of document.querySelectorAll('button[data-of="' + figure.id + '"]')) button.onclick = () => save(figure, button.dataset.format);
document.getElementById('scheme').onclick = () => {
  const dark = root.dataset.scheme ? root.dataset.scheme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.scheme = dark ? 'light' : 'dark';
  draw();
};
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
draw().catch(error => { root.dataset.error = String(error); });

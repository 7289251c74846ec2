/* SPDX-License-Identifier: MIT
 *
 * The style of the page, one text.
 *
 * Colours of series: eight that stay apart under the common kinds of colour blindness and as greys, each with at
 * least 3:1 contrast to its paper; light and print share one set, dark has its own. The letters of wide figures
 * grow on a narrow screen: 18 units of a 640-wide figure on 360 pixels are 10 pixels. svg_parts.h leaves the
 * room for that. */
#ifndef SIA_REPORT_HTML_STYLE_H
#define SIA_REPORT_HTML_STYLE_H

#define LIGHT_COLOURS                                                                                   \
    "--paper:#ffffff;--ink:#1d2430;--soft:#586273;--line:#d9dee6;--grid:#e8ebf0;--shade:#f5f7fa;"       \
    "--link:#0b5fb0;--best:#eaf2fb;--heat:#0b4f94;--in:#ffffff;--out:#1d2430;"                          \
    "--c0:#0b5fb0;--c1:#c84e00;--c2:#00795a;--c3:#a8447f;--c4:#3a3f47;--c5:#8a6a00;--c6:#2a8fc4;--c7:#" \
    "8e1b2f;"

#define DARK_COLOURS                                                                                    \
    "--paper:#14181f;--ink:#e4e8ee;--soft:#9aa5b5;--line:#323a46;--grid:#252c36;--shade:#1b212a;"       \
    "--link:#7db8f0;--best:#1c2f45;--heat:#8ec5ff;--in:#0d1520;--out:#e4e8ee;"                          \
    "--c0:#6cb2f5;--c1:#ff9a4d;--c2:#35c49a;--c3:#e58fc2;--c4:#c9ced6;--c5:#dbb42e;--c6:#8fd6f7;--c7:#" \
    "f0697c;"

static const char html_style[] =
    ":root{color-scheme:light dark;" LIGHT_COLOURS "}\n"
    "@media screen and (prefers-color-scheme:dark){:root{" DARK_COLOURS "}}\n"
    "*{box-sizing:border-box}\n"
    "html{-webkit-text-size-adjust:100%;text-size-adjust:100%}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);"
    "font:1rem/1.6 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\n"
    "main{max-width:54rem;margin:0 auto;padding:3rem 1.25rem 4rem}\n"
    "h1{font-size:2rem;line-height:1.2;margin:0 0 .75rem;letter-spacing:-.015em;text-wrap:balance}\n"
    "h2{font-size:1.35rem;line-height:1.3;margin:3.5rem 0 .75rem;padding-top:1.25rem;"
    "border-top:1px solid var(--line)}\n"
    "h3{font-size:1.05rem;line-height:1.4;margin:2.25rem 0 .5rem}\n"
    "p,ul{margin:.6rem 0;max-width:44rem}\n"
    "ul{padding-left:1.25rem}\n"
    "li{margin:.3rem 0}\n"
    "h1,h2,h3,p,li,figcaption,.long td,.long th{overflow-wrap:anywhere}\n"
    ".lead{font-size:1.15rem;line-height:1.55}\n"
    ".soft,figcaption span{color:var(--soft)}\n"
    ".soft,.note{font-size:.9rem}\n"
    "a{color:var(--link)}\n"
    "nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;padding:0;margin:1.5rem 0 0;list-style:none;"
    "font-size:.92rem}\n"
    "nav li{margin:0}\n"
    "code,pre{font:.88em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}\n"
    "pre{background:var(--shade);border:1px solid var(--line);border-radius:6px;padding:.8rem 1rem;"
    "margin:.75rem 0;white-space:pre-wrap;overflow-wrap:anywhere}\n"
    ".scroll{overflow-x:auto;margin:1rem 0}\n"
    "table{border-collapse:collapse;font-size:.93rem;font-variant-numeric:tabular-nums lining-nums}\n"
    "th,td{padding:.4rem .9rem .4rem 0;text-align:left;vertical-align:baseline;"
    "border-bottom:1px solid var(--line)}\n"
    "thead th{border-bottom:2px solid var(--line);font-weight:600;line-height:1.35}\n"
    "tbody th{font-weight:500;white-space:nowrap;position:sticky;left:0;background:var(--paper)}\n"
    ".data tbody th,.long tbody th{white-space:normal}\n"
    ".n{text-align:right;white-space:nowrap}\n"
    ".n small{color:var(--soft);font-size:.82em;font-weight:400}\n"
    "td.best{background:var(--best);font-weight:700}\n"
    "td.n{padding-left:.5rem}\n"
    ".nowrap{white-space:nowrap}\n"
    "td i,th i{display:inline-block;width:1.1em;text-align:center;font-style:normal}\n"
    "th small{display:block;font-weight:400;color:var(--soft)}\n"
    "tr.muted td,tr.muted th{color:var(--soft)}\n"
    "figure{margin:2rem 0 2.5rem}\n"
    "figcaption{margin-bottom:.75rem;font-weight:600;line-height:1.45}\n"
    "figcaption span{display:block;font-weight:400;font-size:.9rem;max-width:44rem}\n"
    ".grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,21rem),1fr));gap:1rem 2rem}\n"
    ".grid figure{margin:1rem 0;min-width:0}\n"
    "details{margin:.5rem 0;font-size:.9rem}\n"
    "summary{cursor:pointer;color:var(--soft)}\n"
    "details .scroll{max-height:40rem;overflow-y:auto}\n"
    "svg{display:block;width:100%;height:auto;overflow:visible}\n"
    "svg.wide{max-width:44rem}\n"
    "svg.small{max-width:30rem}\n"
    "svg text{font-family:inherit;font-size:13px;fill:var(--ink);font-variant-numeric:tabular-nums}\n"
    "svg .g{stroke:var(--grid);fill:none}\n"
    "svg .a{stroke:var(--soft);fill:none}\n"
    "svg .r{stroke:var(--soft);stroke-dasharray:4 4;fill:none}\n"
    "svg .l{stroke:var(--k);stroke-width:2;fill:none;stroke-linejoin:round}\n"
    "svg .e{stroke:var(--k);stroke-width:1.3;fill:none}\n"
    "svg .m{fill:var(--k);stroke:var(--paper);stroke-width:1}\n"
    "svg .loose .m{stroke:none;fill-opacity:.6}\n"
    "svg .b{fill:var(--k);fill-opacity:.8}\n"
    "svg .h{fill:var(--heat);stroke:var(--line);stroke-width:1}\n"
    "svg .n{fill:none;stroke:var(--line);stroke-dasharray:2 3}\n"
    "svg .i text{fill:var(--in)}\n"
    "svg .o text{fill:var(--out)}\n"
    ".c0{--k:var(--c0)}.c1{--k:var(--c1)}.c2{--k:var(--c2)}.c3{--k:var(--c3)}\n"
    ".c4{--k:var(--c4)}.c5{--k:var(--c5)}.c6{--k:var(--c6)}.c7{--k:var(--c7)}\n"
    "footer{margin-top:4rem;padding-top:1rem;border-top:1px solid var(--line)}\n"
    "@media (max-width:34rem){main{padding:1.75rem 1rem 3rem}h1{font-size:1.6rem}"
    "svg.wide text{font-size:18px}th,td{padding-right:.7rem}}\n"
    "@media print{:root{color-scheme:light;" LIGHT_COLOURS "}main{max-width:none;padding:0}"
    "body{font-size:10pt}svg *,td.best{print-color-adjust:exact;-webkit-print-color-adjust:exact}"
    "figure,table,pre{break-inside:avoid}h2,h3{break-after:avoid}nav,details:not([open]),summary,a[download]{"
    "display:none}"
    "li{break-inside:avoid}p:has(+pre){break-after:avoid}footer{margin-top:1rem}"
    ".folded{display:none}.scroll,details "
    ".scroll{max-height:none;overflow:visible}svg.wide{max-width:15cm}}\n";

#undef LIGHT_COLOURS
#undef DARK_COLOURS

#endif

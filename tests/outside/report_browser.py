#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The report in a real browser: clean console, nothing requested, no label over another, phone, dark, print.

    python3 tests/outside/report_browser.py --build build/release [--pictures FOLDER]      a report of tests/report/sample.c
    python3 tests/outside/report_browser.py --report demo/report.html [--pictures FOLDER]  one that is there

Wants Debian's chromium; without it the test says so and is skipped. Needs nothing but Python's own library. What catches
requests and words on the console is first tried on a page that deserves it.
"""
import argparse
import csv
import html
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.parse

SKIPPED = 77  # what ctest takes for it
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# Looks at the report inside of a frame of a given width, and writes what it sees into the title.
PROBE = """<!DOCTYPE html><meta charset="utf-8"><body style="margin:0">
<iframe id="f" src="%s" style="border:0;width:%dpx;height:4000px"></iframe><script>
document.getElementById("f").onload = function () {
  const doc = this.contentDocument, win = this.contentWindow, seen = {};
  seen.width = doc.documentElement.scrollWidth;
  seen.paper = win.getComputedStyle(doc.body).backgroundColor;
  const root = win.getComputedStyle(doc.documentElement);
  seen.colours = [0,1,2,3,4,5,6,7].map(i => root.getPropertyValue("--c" + i).trim());
  seen.svgs = doc.querySelectorAll("svg").length;
  seen.smallest = 1e9; seen.overlaps = []; seen.outside = [];
  for (const svg of doc.querySelectorAll("svg")) {
    const frame = svg.getBoundingClientRect(), scale = frame.width / svg.viewBox.baseVal.width;
    const boxes = [];
    for (const text of svg.querySelectorAll("text")) {
      const b = text.getBoundingClientRect();
      seen.smallest = Math.min(seen.smallest, parseFloat(win.getComputedStyle(text).fontSize) * scale);
      if (b.left < frame.left - 2 || b.right > frame.right + 2 || b.top < frame.top - 2 || b.bottom > frame.bottom + 2)
        seen.outside.push(svg.getAttribute("aria-label") + ": " + text.textContent);
      for (const o of boxes) {
        const w = Math.min(b.right, o.b.right) - Math.max(b.left, o.b.left);
        const h = Math.min(b.bottom, o.b.bottom) - Math.max(b.top, o.b.top);
        /* boxes are higher than letters: lines may touch by a few pixels */
        if (w > 1 && h > 4) seen.overlaps.push(svg.getAttribute("aria-label") + ": " + text.textContent + " / " + o.t);
      }
      boxes.push({b: b, t: text.textContent});
    }
  }
  document.title = "SEEN" + JSON.stringify(seen) + "NEES";
};
</script></body>"""


# What the browser asks for on its own account, whatever the page.
OWN = re.compile(r"^[A-Z]+ (http://)?[a-z0-9.-]+\.(google|googleapis|gstatic)\.com[:/]")


class Proxy:
    """Refuses everything, and remembers what was asked for."""

    def __init__(self):
        self.asked = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client, _ = self.server.accept()
            with client:
                client.settimeout(2)
                try:
                    line = client.recv(4096).split(b"\r\n")[0].decode("latin-1")
                    if not OWN.match(line):
                        self.asked.append(line)
                    client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                except OSError:
                    pass


def browse(address, *options, proxy=None):
    """Runs the browser on one address; returns its stdout and the lines of its console."""
    with tempfile.TemporaryDirectory() as profile:
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update", "--disable-sync",
                   "--disable-default-apps", "--enable-logging=stderr", "--user-data-dir=" + profile,
                   "--allow-file-access-from-files", "--virtual-time-budget=5000"]
        if proxy:
            command += ["--proxy-server=127.0.0.1:%d" % proxy.port, "--proxy-bypass-list=<-loopback>"]
        done = subprocess.run(command + list(options) + [address], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=180, check=False)
    errors = done.stderr.decode("utf-8", "replace")
    return done.stdout.decode("utf-8", "replace"), [l for l in errors.splitlines() if "CONSOLE" in l]


def look(work, page, width, *options):
    probe = os.path.join(work, "probe.html")
    with open(probe, "w", encoding="utf-8") as f:
        f.write(PROBE % ("file://" + page, width))
    dom, _ = browse("file://" + probe, "--dump-dom", "--window-size=1400,4000", *options)
    found = re.search(r"SEEN(.*?)NEES", dom, re.S)
    assert found, "the probe saw nothing"
    return json.loads(html.unescape(found.group(1)))


def luminance(colour):
    if colour.startswith("#"):
        parts = [int(colour[i:i + 2], 16) for i in (1, 3, 5)]
    else:
        parts = [int(n) for n in re.findall(r"\d+", colour)[:3]]
    linear = [p / 255 / 12.92 if p / 255 <= 0.04045 else ((p / 255 + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def check(name, right, detail=""):
    print("%-62s %s" % (name, "ok" if right else "WRONG " + str(detail)[:2000]))
    check.failed += not right


check.failed = 0


def check_requests(work, page):
    leaky = os.path.join(work, "leaky.html")
    with open(leaky, "w", encoding="utf-8") as f:
        f.write('<img src="http://leak.example/a.png"><script>console.error("loud")</script>')
    proxy = Proxy()
    _, console = browse("file://" + leaky, "--dump-dom", proxy=proxy)
    check("a page that asks for a picture is caught", any("leak.example" in a for a in proxy.asked), proxy.asked)
    check("a page that writes to the console is caught", any("loud" in l for l in console), console)
    proxy = Proxy()
    dom, console = browse("file://" + page, "--dump-dom", proxy=proxy)
    check("the report asks for nothing", not proxy.asked, proxy.asked)
    check("the console is clean", not console, console)
    check("the page is all there", dom.rstrip().endswith("</html>") and "<footer" in dom)
    return dom


def check_data(dom):
    links = re.findall(r'<a download="([^"]+)" href="data:text/csv;charset=utf-8,([^"]*)"', dom)
    rows = [list(csv.reader(io.StringIO(urllib.parse.unquote(data), newline=""))) for _, data in links]
    check("%d downloads are tables" % len(rows), rows and all(len(r) > 1 and len({len(x) for x in r}) == 1 for r in rows))


def check_look(work, page):
    paper = {}
    for width in (360, 390, 1000):
        for dark in (1, 0):
            seen = look(work, page, width, "--blink-settings=preferredColorScheme=%d" % dark)
            what = "%d pixels, %s: " % (width, "light" if dark else "dark")
            paper[dark] = seen["paper"]
            check(what + "nothing is wider than the screen", seen["width"] <= width, seen["width"])
            check(what + "no label over another", not seen["overlaps"], seen["overlaps"])
            check(what + "no label outside of its figure", not seen["outside"], seen["outside"])
            check(what + "letters of 9 pixels and more", seen["smallest"] >= 9, seen["smallest"])
            least = min(contrast(c, seen["paper"]) for c in seen["colours"])
            check(what + "contrast of the series %.1f" % least, least >= 3, seen["colours"])
    check("dark is dark, light is light", luminance(paper[0]) < 0.1 and luminance(paper[1]) > 0.9, paper)


def check_parts(dom):
    """Figures and tables are there, and each figure has its data."""
    figures = re.findall(r"<figure.*?</figure>", dom, re.S)
    tables = re.findall(r"<table.*?</table>", dom, re.S)
    check("%d figures, each drawn" % len(figures), figures and all("<svg" in f for f in figures))
    check("each figure has its data", all("<table" in f or "data:text/csv" in f for f in figures))
    check("%d tables, none empty" % len(tables), tables and all("<td" in t for t in tables))


def take_pictures(page, pictures):
    os.makedirs(pictures, exist_ok=True)
    for name, width, scheme in (("light", 1000, 1), ("dark", 1000, 0), ("phone", 500, 1)):
        picture = "%s/%s.png" % (pictures, name)
        browse("file://" + page, "--window-size=%d,16000" % width, "--screenshot=" + picture,
               "--blink-settings=preferredColorScheme=%d" % scheme)
        check("picture " + name, os.path.getsize(picture) > 20000)
    browse("file://" + page, "--print-to-pdf=%s/report.pdf" % pictures)
    check("it prints", os.path.getsize(pictures + "/report.pdf") > 20000)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build/release", help="makes a report of samples")
    parser.add_argument("--report", help="look at this one instead")
    parser.add_argument("--pictures", help="a folder to keep what was seen")
    options = parser.parse_args()
    if not CHROMIUM:
        print("skipped: no chromium")
        return SKIPPED
    with tempfile.TemporaryDirectory() as work:
        page = os.path.abspath(options.report) if options.report else work + "/report.html"
        if not options.report:
            subprocess.run([options.build + "/tests/report/make_sample", work, "3"], check=True)
            subprocess.run([options.build + "/sia", "report", "--quiet", work, work + "/run"], check=True)
        dom = check_requests(work, page)
        check_parts(dom)
        check_data(dom)
        check_look(work, page)
        take_pictures(page, os.path.abspath(options.pictures) if options.pictures else work)
    print("report in the browser: %s" % ("%d checks failed" % check.failed if check.failed else "all is well"))
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Tests clique report: parses the page, and compares its content with the rows in the results.

usage: check_report.py BIN_FOLDER TESTS_FOLDER
"""
import html.parser
import json
import pathlib
import re
import resource
import subprocess
import sys
import unittest

import support

TESTS = pathlib.Path(sys.argv.pop(2) if len(sys.argv) > 2 else "build/tests")
BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin")
VOID = {"meta", "br", "hr", "img", "input", "link"}
SCRIPTS = ["application/json", None, None]
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;<!--]]>\x1b\u2028é"
CLEAN = HOSTILE.replace("\x1b", "?")


class Page(html.parser.HTMLParser):
    """Elements as a tree of [tag, attributes, children]; text as strings."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.root = ["", {}, []]
        self.open = [self.root]
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        element = [tag, dict(attributes), []]
        self.open[-1][2].append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open[-1][0] == tag, f"</{tag}> closes <{self.open[-1][0]}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1][2].append(data)

    def all(self, tag, within=None):
        found = []
        for child in (within or self.root)[2]:
            if not isinstance(child, str):
                found += [child] * (child[0] == tag) + self.all(tag, child)
        return found

    def text(self, element):
        return "".join(child if isinstance(child, str) else self.text(child) for child in element[2])

    def rows(self, table):
        return [[self.text(cell) for cell in row[2] if not isinstance(cell, str)] for row in self.all("tr", table)]

    def tables(self, caption):
        return [table for table in self.all("table") if self.text(self.all("caption", table)[0]).startswith(caption)]

    def plots(self):
        script, = (s for s in self.all("script") if s[1].get("id") == "plots")
        return json.loads(self.text(script))


def document(bench, rows, **members):
    devices = [{"index": i, "driver": driver, "name": f"device {i}", "driver_version": "3.1"} for i, driver in enumerate(("pocl", "pocl", "intel"))]
    host = {"system": "Linux", "machine": "x86_64", "cores": 2, "memory_bytes": 16788516864}
    return {"schema": "clique-bench/1", "bench": bench, "host": host, "devices": devices, "command": "clique-bench " + bench, "rows": rows} | members


def collective(size, rate, algo="ring", **members):
    time = size / rate / 1e3 if size else 5.0
    return {"bytes": size, "count": size // 4, "dtype": "f32", "redop": "sum", "algo": algo, "transport": "staged", "in_place": False,
            "time_us": {"min": time * 0.9, "p50": time, "p99": time * 1.5}, "algbw_gbps": rate, "busbw_gbps": rate if size else 0,
            "wrong": 0, "limit_gbps": 5.0, "pct_of_limit": rate * 20} | members


def training(model, replicas, rate, efficiency):
    return {"model": model, "replicas": replicas, "batch": 64, "images_per_s": rate, "images_per_s_least": rate * 0.9,
            "images_per_s_most": rate * 1.1, "step_ms": 64e3 / rate, "comm_ms": 0.1, "overlap": 0.25, "efficiency": efficiency}


class Report(support.InFolder):
    def run_report(self, *arguments, program=BIN / "clique"):
        return subprocess.run([str(program), "report", *arguments], capture_output=True, text=True, timeout=120, cwd=self.folder)

    def report(self, **files):
        """files: NAME=document, in this order."""
        result = self.run_report(*(self.put(f"{name}.json", content) for name, content in files.items()), "-o", "report.html")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.source = (self.folder / "report.html").read_text()
        page = Page(self.source)
        self.assertEqual(page.open, [page.root], "all elements are closed")
        self.assertEqual([script[1].get("type") for script in page.all("script")], SCRIPTS)
        self.assertEqual(len(page.plots()), len(page.all("canvas")))
        self.assertIn(f"{len(page.plots())} plots", result.stdout)
        return page

    def fails(self, code, *arguments, says=(), program=BIN / "clique"):
        result = self.run_report(*arguments, program=program)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertRegex(result.stderr, r"\Aclique: error: [^\n]+\n\Z")
        for word in says:
            self.assertIn(word, result.stderr)

    def test_page_needs_nothing_else(self):
        page = self.report(a=document("all_reduce", [collective(1024, 1.0)]))
        self.assertTrue(self.source.startswith("<!DOCTYPE html>\n<html lang=\"en\">"))
        self.assertIn("Chart.js v", page.text(page.all("script")[1]))
        self.assertRegex(self.source, r"default-src 'none'")
        for element in [e for tag in ("script", "link", "img", "iframe", "a", "style", "canvas") for e in page.all(tag)]:
            self.assertNotIn("src", element[1])
            self.assertRegex(element[1].get("href", "#"), r"\A#")
        self.assertNotIn("@import", self.source)
        targets = [element[1]["href"][1:] for element in page.all("a")]
        self.assertEqual(targets, [section[1]["id"] for section in page.all("section")])

    def test_machine(self):
        page = self.report(a=document("all_reduce", [collective(1024, 1.0)]), b=document("gemm", [], note="the machine was busy"),
                           c=document("gemm", [], host={"system": "Plan 9"}, command="clique-bench " + "gemm " * 30))
        terms = [dict(zip(map(page.text, page.all("dt", dl)), map(page.text, page.all("dd", dl)))) for dl in page.all("dl")]
        self.assertEqual(terms, [{"system": "Linux", "machine": "x86_64", "cores": "2", "memory_bytes": "15.6 GiB"}, {"system": "Plan 9"}])
        devices = page.rows(page.tables("Devices")[0])
        self.assertEqual(devices[0], ["index", "driver", "name", "driver_version"])
        self.assertEqual(devices[3], ["2", "intel", "device 2", "3.1"])
        first, second = map(page.rows, page.tables("Files"))
        drivers = "pocl, pocl, intel"
        self.assertEqual(first, [["file", "benchmark", "row count", "devices", "command", "note"],
                                 ["1 a.json", "all_reduce", "1", drivers, "clique-bench all_reduce", "-"],
                                 ["2 b.json", "gemm", "0", drivers, "clique-bench gemm", "the machine was busy"]])
        self.assertEqual(second[1], ["3 c.json", "gemm", "0", drivers, "clique-bench " + "gemm " * 30])

    def test_one_machine_with_parts_of_its_devices(self):
        """The machine's other load, and the choice of devices, do not make it another machine."""
        def of(labels, others):
            return document("gemm", [], host={"system": "Linux", "others_cores": others, "busy": others > 0.5},
                            devices=[{"index": i, "label": label} for i, label in labels])
        page = self.report(a=of([(0, "pocl:0"), (1, "pocl:1")], 0.25), b=of([(1, "pocl:1"), (2, "intel:0")], 1.5))
        self.assertEqual([page.text(list_) for list_ in page.all("dl")], ["\nsystemLinux\n"])
        devices, = map(page.rows, page.tables("Devices"))
        self.assertEqual(devices, [["index", "label"], ["0", "pocl:0"], ["1", "pocl:1"], ["2", "intel:0"]])
        files, = map(page.rows, page.tables("Files"))
        self.assertEqual([row[3:6] for row in files], [["devices", "others_cores", "busy"], ["pocl:0, pocl:1", "0.25", "no"],
                                                       ["pocl:1, intel:0", "1.5", "yes"]])
        self.assertNotIn("Another machine", self.source)

    def test_collectives(self):
        rows = [collective(size, rate, algo, in_place=place, limit_gbps=limit) for place in (False, True)
                for algo, limit in (("ring", 2.5), ("direct", 5.0)) for size, rate in ((0, 0.0), (4096, 0.25), (1 << 20, 2.125))]
        page = self.report(a=document("all_reduce", rows))
        busbw, placed, time, _ = page.plots()
        self.assertEqual((busbw["kind"], busbw["y"], busbw["x"]), ("size", "busbw, GB/s", "size"))
        self.assertEqual(list(busbw["lines"]), ["ring, staged", "direct, staged"])
        self.assertEqual(busbw["lines"]["ring, staged"], {"family": "ring, staged", "file": None, "points": [[4096, 0.25], [1 << 20, 2.125]],
                                                          "limits": [[4096, 2.5], [1 << 20, 2.5]]})
        self.assertEqual(busbw["lines"]["direct, staged"]["limits"], [[4096, 5.0], [1 << 20, 5.0]])
        self.assertEqual(placed["lines"], busbw["lines"])
        self.assertEqual(time["kind"], "size-time")
        self.assertEqual(time["lines"]["direct, staged"]["points"], [[4096, 16.384], [1 << 20, round((1 << 20) / 2125, 6)]])
        self.assertEqual(time["lines"]["direct, staged"]["limits"], [])
        titles = [page.text(caption) for caption in page.all("figcaption")]
        self.assertEqual(titles[:2], ["Bus bandwidth over sizedtype f32, redop sum, in_place no", "Bus bandwidth over sizedtype f32, redop sum, in_place yes"])
        self.assertIn("the most is 2.125 at 1048576, ring, staged", page.all("canvas")[0][1]["aria-label"])
        table = page.rows(page.all("table", page.all("details")[0])[0])
        self.assertEqual(table[0], ["bytes", "count", "dtype", "redop", "algo", "transport", "in_place", "time min, µs", "time p50, µs", "time p99, µs",
                                    "algbw, GB/s", "busbw, GB/s", "wrong", "limit, GB/s", "pct_of_limit"])
        self.assertEqual(len(table), 1 + len(rows))
        self.assertEqual(table[3], ["1 MiB", "262144", "f32", "sum", "ring", "staged", "no", "444.1", "493.4", "740.2", "2.125", "2.125", "0", "2.5", "42.5"])

    def test_wrong_results_stand_out(self):
        page = self.report(a=document("all_reduce", [collective(1024, 1.0, wrong=3), collective(2048, 1.0)]))
        self.assertEqual([page.text(cell) for cell in page.all("td") if "bad" in cell[1].get("class", "")], ["3"])

    def test_matrices(self):
        def pair(one, other, rate, **members):
            return {"from": one, "to": other, "way": "one", "gbps": rate, "latency_us": None if rate is None else 2.0 * rate} | members
        page = self.report(a=document("p2p", [pair(0, 1, 3.0), pair(1, 0, 4.0), pair(0, 2, 5.0, zero_copy=True), pair(2, 0, None, reason="no <way>"),
                                              pair(0, 1, 9.0, way="two")]))
        rates, times = page.tables("GB/s")[0], page.tables("latency, µs")[0]
        self.assertEqual(page.rows(rates), [["", "to 0 pocl", "to 1 pocl", "to 2 intel"], ["from 0 pocl", "–", "3.00", "5.00 zero-copy"],
                                            ["from 1 pocl", "4.00", "–", "–"], ["from 2 intel", "not measured", "–", "–"]])
        shades = [cell[1]["style"] for cell in page.all("td", rates) if "style" in cell[1]]
        self.assertEqual(shades, ["--v:0.000", "--v:1.000", "--v:0.500"])
        self.assertEqual(page.rows(times)[1], ["from 0 pocl", "–", "6.00", "10.0 zero-copy"])
        self.assertIn("way one", page.text(rates))
        self.assertIn("darker is faster", page.text(rates))
        self.assertIn("darker is slower", page.text(times))
        self.assertEqual(len(page.tables("GB/s")), 2)
        self.assertIn("Not measured, 2 to 0: no <way>", [page.text(note) for note in page.all("p")])
        self.assertEqual(page.plots(), [])

    def test_matrices_of_two_machines(self):
        rows = [{"from": 0, "to": 1, "gbps": 1.0}]
        page = self.report(a=document("p2p", rows), b=document("p2p", rows, devices=[{"index": 0, "driver": "amd"}]))
        self.assertEqual([page.rows(table)[0] for table in page.tables("GB/s")], [["", "to 0", "to 1"]] * 2)
        self.assertIn("file 2 b.json", page.text(page.tables("GB/s")[1]))
        same = self.report(a=document("p2p", rows), b=document("p2p", rows))
        self.assertEqual([same.rows(table)[0] for table in same.tables("GB/s")], [["", "to 0 pocl", "to 1 pocl"]] * 2)

    def test_numbers_that_are_no_devices(self):
        for wrong in (-1, 64, 1 << 62, 1.5, "0", None, True, [0]):
            page = self.report(a=document("p2p", [{"from": 0, "to": wrong, "gbps": 1.0}]))
            self.assertEqual(page.tables("GB/s"), [])
            self.assertEqual(len(page.rows(page.all("table", page.all("details")[0])[0])), 2)

    def test_training(self):
        rows = [training("mlp", 1, 1000.0, 1.0), training("mlp", 2, 1500.0, 0.75), training("cnn", 1, 100.0, 1.0), training("cnn", 2, 180.0, 0.9)]
        page = self.report(a=document("train", rows))
        mlp, cnn, efficiency = page.plots()
        self.assertEqual(mlp["y"], "images/s")
        self.assertEqual(mlp["lines"][""]["points"], [[1, 1000.0], [2, 1500.0]])
        self.assertEqual(mlp["lines"][""]["limits"], [[1, 1000.0], [2, 2000.0]])
        self.assertEqual(cnn["lines"][""]["points"], [[1, 100.0], [2, 180.0]])
        self.assertEqual(efficiency["lines"]["mlp"]["points"], [[1, 100.0], [2, 75.0]])
        self.assertEqual(efficiency["lines"]["cnn"]["points"], [[1, 100.0], [2, 90.0]])
        self.assertIn("images/s least", page.rows(page.all("table", page.all("details")[0])[0])[0])

    def test_predictions(self):
        """The predictions that clique why --json prints are drawn unchanged."""
        def prediction(replicas, strategy, rate):
            return {"replicas": replicas, "strategy": strategy, "images_per_s": rate, "step_ms": 64e3 / rate, "limit": "compute",
                    "parts_ms": {"input": 0.5, "compute": 64e3 / rate - 0.5}}
        page = self.report(why={"model": "mlp", "global_batch": 64, "best": {}, "advice": [], "probes": {"seconds": 2.5},
                                "predictions": [prediction(1, "single", 1000.0), prediction(2, "single", 1100.0), prediction(2, "mirrored", 1500.0)]})
        plot, = page.plots()
        self.assertEqual((plot["kind"], plot["y"]), ("replicas", "images/s"))
        self.assertEqual({name: line["points"] for name, line in plot["lines"].items()},
                         {"single": [[1.0, 1000.0], [2.0, 1100.0]], "mirrored": [[2.0, 1500.0]]})
        self.fails(3, self.put("bad.json", {"model": "mlp", "predictions": [3]}), "-o", self.folder / "bad.html", says=["bad.json", "row 1"])

    def test_scale(self):
        """The output of clique plan --machines --json, without any added member: one line over the machines, the
        default dotted."""
        plan = subprocess.run([str(BIN / "clique"), "plan", "--machines", "16", "--compute-ms", "10,20", "--gradient", "1e8@1", "--json"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(plan.returncode, 0, plan.stderr)
        rows = json.loads(plan.stdout)["rows"]
        page = self.report(scale=json.loads(plan.stdout))
        plot, = page.plots()
        self.assertEqual((plot["kind"], plot["y"], plot["limit"]), ("machines", "efficiency, %", "by default"))
        (_, line), = plot["lines"].items()
        for points, column in (("points", "efficiency"), ("limits", "default_efficiency")):
            self.assertEqual([x for x, _ in line[points]], [1, 2, 4, 8, 16])
            for (_, y), row in zip(line[points], rows):
                self.assertAlmostEqual(y, 100 * row[column], places=5)  # printed with 9 digits

    def test_shares(self):
        def launch(model, segment, name, share, **members):
            return {"device": 0, "label": "pocl:0", "model": model, "batch": 64, "segment": segment, "layer": "a<b", "launch": name, "us": 100.0 * share,
                    "share": share, "gflops": 3.0, "gbps": 2.5, "limit": "memory", "pct_of_limit": 50.0, "launches": None} | members
        rows = [launch("mlp", "forward", "small", 0.25), launch("mlp", "backward", "large", 0.746), launch("cnn", "forward", "most", 0.999),
                launch("mlp", "update", "tiny", 0.0015), launch("mlp", "update", "tinier", 0.0025), launch("mlp", "step", "all", 1.0, launches=4)]
        page = self.report(a=document("step", rows))
        mlp, cnn = page.tables("Shares of the step")
        self.assertEqual(page.rows(mlp), [["share", "segment", "layer", "launch", "µs", "GFLOP/s", "GB/s", "limit", "% of limit"],
                                          ["74.6 %", "backward", "a<b", "large", "74.6", "3", "2.5", "memory", "50"],
                                          ["25.0 %", "forward", "a<b", "small", "25", "3", "2.5", "memory", "50"]])
        self.assertEqual([cell[1]["style"] for cell in page.all("td", mlp) if cell[1].get("class") == "bar"], ["--v:74.6%", "--v:25.0%"])
        self.assertIn("model mlp", page.text(mlp))
        self.assertEqual([row[3] for row in page.rows(cnn)], ["launch", "most"])
        self.assertIn("2 shorter launches: 0.4 % together.", [page.text(note) for note in page.all("p")])
        self.assertEqual(page.plots(), [])
        for wrong in (None, "much", -1.0, 0.0, 1e40, [0.5], {"p50": "x"}):
            page = self.report(a=document("step", [launch("mlp", "forward", "x", 0.5) | {"share": wrong}]))
            self.assertEqual(page.tables("Shares"), [])

    def test_files_of_one_benchmark(self):
        page = self.report(before=document("all_reduce", [collective(1024, 1.0), collective(2048, 1.5)]), other=document("gemm", [{"m": 8, "us": 3.5}]),
                           after=document("all_reduce", [collective(1024, 2.0), collective(2048, 2.5)]))
        lines = page.plots()[0]["lines"]
        self.assertEqual(list(lines), ["1 before.json, ring, staged", "3 after.json, ring, staged"])
        self.assertEqual({line["family"] for line in lines.values()}, {"ring, staged"})
        self.assertEqual([line["file"] for line in lines.values()], ["1 before.json", "3 after.json"])
        self.assertEqual(lines["3 after.json, ring, staged"]["points"], [[1024, 2.0], [2048, 2.5]])
        self.assertEqual([page.text(title) for title in page.all("h2")], ["Machines and files", "all_reduce", "gemm"])
        every, gemm = page.all("details")
        self.assertEqual([row[0] for row in page.rows(page.all("table", every)[0])], ["file", "1 before.json", "1 before.json", "3 after.json", "3 after.json"])
        self.assertEqual(page.rows(page.all("table", gemm)[0]), [["m", "µs"], ["8", "3.5"]])

    def test_rows_of_any_kind(self):
        rows = [{"op": "conv2d", "shape": [1, 28, 28], "us": {"p50": 1.5}, "found": True}, {"op": "dense", "gflops": 12345.678, "nothing": None},
                {"deep": {"deeper": {"deepest": 1}}, "tiny": 1e-7, "huge": 1e300}]
        page = self.report(a=document("of next year", rows), b=document("empty", []))
        table, empty = (page.rows(page.all("table", details)[0]) for details in page.all("details"))
        self.assertEqual(table[0], ["op", "shape", "p50, µs", "found", "GFLOP/s", "nothing", "deep deeper", "tiny", "huge"])
        self.assertEqual(table[1:], [["conv2d", "[1,28,28]", "1.5", "yes"] + ["-"] * 5, ["dense", "-", "-", "-", "12346"] + ["-"] * 4,
                                     ["-"] * 6 + ['{"deepest":1}', "1e-07", "1e+300"]])
        self.assertEqual(empty, [[]])

    def test_hostile_names(self):
        plain = self.report(a=document("p2p", [collective(1024, 1.0, **{"from": 0, "to": 1}) | {"x": "x"}]), b=document("p2p", [training("m", 1, 1.0, 1.0)]))
        tags = {tag for tag in ("script", "img", "style", "iframe", "a", "canvas", "figure") if plain.all(tag)}
        row = collective(1024, 1.0, HOSTILE, **{"from": 0, "to": 1, HOSTILE: HOSTILE, "reason": HOSTILE, "dtype": HOSTILE})
        device = {"index": 0, "driver": HOSTILE, HOSTILE: HOSTILE}
        bad = document(HOSTILE, [row, row | {"to": 2, "gbps": None}, training(HOSTILE, 1, 10.0, 1.0)], host={HOSTILE: HOSTILE}, devices=[device],
                       command=HOSTILE, **{HOSTILE: HOSTILE})
        name = "a</script><script>alert(3)"
        page = self.report(**{name.replace("/", "<"): bad, "b": bad})
        self.assertEqual({tag for tag in ("script", "img", "style", "iframe", "a", "canvas", "figure") if page.all(tag)}, tags)
        for element in (e for tag in ("td", "th", "canvas", "figure", "section", "a", "div", "p", "body", "table") for e in page.all(tag)):
            self.assertLessEqual(set(element[1]), {"class", "style", "title", "scope", "id", "role", "aria-label", "href", "tabindex"})
        self.assertEqual(self.source.count("</script"), 3)
        self.assertNotIn("<!--", self.source)
        self.assertNotIn("\x1b", self.source)
        self.assertEqual(page.text(page.all("h2")[1]), CLEAN)
        self.assertIn(CLEAN, page.text(page.all("dl")[0]))
        plots = page.plots()
        self.assertTrue(any(CLEAN in label for plot in plots for label in plot["lines"]))
        self.assertIn(CLEAN, page.all("canvas")[0][1]["aria-label"])
        self.assertIn("a<<script><script>alert(3).json", page.text(page.tables("Files")[0]))
        self.assertIn(f"to 0 {CLEAN}", page.text(page.tables("busbw, GB/s")[0]))

    def test_file_names_that_are_no_text(self):
        good = self.put("good.json", document("gemm", [{"m": 1, "us": 1.0}]))
        (self.folder / "bytes").mkdir()
        path = bytes(self.folder) + b"/bytes/\xff\xfe.json"
        with open(path, "wb") as file:
            file.write(pathlib.Path(good).read_bytes())
        result = subprocess.run([bytes(BIN / "clique"), b"report", path, good.encode(), b"-o", bytes(self.folder / "r.html")], capture_output=True, timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        page = Page((self.folder / "r.html").read_bytes().decode("utf-8"))
        self.assertEqual([row[0] for row in page.rows(page.tables("Files")[0])], ["file", "1 ??.json", "2 good.json"])

    def test_more_plots_than_can_be_looked_at(self):
        rows = [collective(1024, 1.0, dtype=f"t{i}") for i in range(30)]
        page = self.report(a=document("all_reduce", rows))
        self.assertEqual(len(page.plots()), 48)
        self.assertEqual(sum("6 more plots of this kind" in page.text(note) for note in page.all("p")), 2)

    def test_many_rows(self):
        page = self.report(a=document("ops", [{"op": f"op {i}", "us": 1.0 + i} for i in range(30000)]))
        self.assertEqual(len(page.rows(page.all("table", page.all("details")[0])[0])), 30001)

    def test_many_devices(self):
        """Takes a second of processor time. Comparing each device with every other one would take minutes."""
        devices = [(i, f"d:{i}") for i in range(60000)]
        files = [self.put(name, document("ops", [], devices=[{"index": i, "label": label} for i, label in some]))
                 for name, some in (("a.json", devices), ("b.json", devices[:100] + [(0, "other")]))]
        result = subprocess.run([str(BIN / "clique"), "report", *files, "-o", "report.html"], capture_output=True, text=True, cwd=self.folder,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (30, 30)))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        told = re.findall(r'<tr><td class="n">(\d+)</td><td>([^<]+)</td></tr>', (self.folder / "report.html").read_text())
        self.assertEqual([(int(index), label) for index, label in told], devices + [(0, "other")])

    def test_columns_with_like_names(self):
        rows = [{"a": {"b c": 1}, "a b": {"c": 2}, "1 a b": 3}, {"a": 4}]
        page = self.report(a=document("x", rows))
        self.assertEqual(page.rows(page.all("table", page.all("details")[0])[0]),
                         [["a b c", "a b c", "1 a b", "a"], ["1", "2", "3", '{"b c":1}'], ["-", "-", "-", "4"]])

    def test_more_heat_maps_than_can_be_looked_at(self):
        rows = [{"from": 0, "to": 1, "what": f"w{i}", "gbps": 1.0, "other_gbps": 1.0} for i in range(40)]
        page = self.report(a=document("p2p", rows))
        self.assertEqual(len([table for table in page.all("table") if table[1].get("class") == "heat"]), 64)
        self.assertEqual(sum("16 more tables of this kind" in page.text(note) for note in page.all("p")), 1)

    def test_bad_files(self):
        good, report = self.put("good.json", document("all_reduce", [collective(1024, 1.0)])), self.folder / "report.html"
        report.write_text("as it was")
        for name, bad in {
            "empty": "", "cut": json.dumps(document("train", []))[:-2], "text": "hello", "list": [], "deep": "[" * 100000,
            "no schema": {"bench": "all_reduce", "rows": []}, "another schema": document("a", [], schema="clique-bench/2"),
            "no bench": document("", []), "rows": document("a", {}), "row": document("a", [{}, 1]),
            "columns": document("a", [{f"c{i}": i for i in range(200)}]),
            "members": document("a", [], **{f"m{i}": i for i in range(60000)}),
            "members of a note": document("a", [], note={f"m{i}": i for i in range(60000)}),
            "a device": document("a", [], devices=[{f"c{i}": i for i in range(200)}]),
            "devices": document("a", [], devices=[{f"c{i}": i} for i in range(60000)]), "device": document("a", [], devices=[{}, 1]),
        }.items():
            with self.subTest(name):
                self.fails(3, good, self.put("bad.json", bad), "-o", str(report), says=["bad.json"])
        self.fails(3, good, "missing.json", "-o", str(report), says=["missing.json"])
        self.assertEqual(report.read_text(), "as it was")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["bad.json", "good.json", "report.html"])

    def test_wrong_usage(self):
        good = self.put("good.json", document("gemm", []))
        self.fails(2, "-o", "report.html", says=["no result"])
        self.fails(2, good, says=["-o"])
        self.fails(2, good, "-o", says=["-o"])
        self.fails(2, good, "-o", "report.html", "--jsn", says=["--jsn"])
        self.fails(2, good, "-o", "good.json", says=["good.json"])
        (self.folder / "link.json").symlink_to("good.json")
        self.fails(2, good, "-o", "link.json", says=["link.json"])
        self.assertTrue(pathlib.Path(good).read_text().startswith('{"schema"'))
        self.fails(1, good, "-o", "no/such/folder.html", says=["no/such"])
        self.fails(1, good, "-o", ".", says=["regular"])

    def test_build_without_chart_js(self):
        good = self.put("good.json", document("gemm", []))
        self.fails(1, good, "-o", "report.html", says=["Chart.js", "libjs-chart.js"], program=TESTS / "clique_without_chart")
        self.assertFalse((self.folder / "report.html").exists())

    def test_real_result(self):
        measured = str(self.folder / "train.json")
        bench = subprocess.run([str(BIN / "clique"), "bench", "train", "--devices", "pocl:0,pocl:1", "--models", "mlp", "--batch", "64", "-n", "1", "-w", "0",
                                "--json", measured], capture_output=True, text=True, timeout=250)
        self.assertEqual(bench.returncode, 0, bench.stderr)
        result = self.run_report(measured, "-o", "report.html")
        self.assertEqual(result.returncode, 0, result.stderr)
        page, rows = Page((self.folder / "report.html").read_text()), json.loads(pathlib.Path(measured).read_text())["rows"]
        self.assertEqual([row["replicas"] for row in rows], [1, 2])
        for (x, y), row in zip(page.plots()[0]["lines"][""]["points"], rows):
            self.assertEqual(x, row["replicas"])
            self.assertAlmostEqual(y / row["images_per_s"], 1.0, places=7)
        self.assertRegex(page.text(page.tables("Devices")[0]), r"pocl")
        self.assertRegex(page.text(page.tables("Files")[0]), re.escape("--models mlp"))


if __name__ == "__main__":
    unittest.main(verbosity=1)

"""The tables of serve_load.py."""
import json
import statistics
import subprocess
from pathlib import Path

PACKAGES = ("fastapi", "uvicorn", "sentence-transformers", "torch", "onnxruntime", "faiss-cpu", "infinity-emb")
COLUMNS = ["requests/s", "x", "p50 ms", "p95 ms", "p99 ms", "p99 x", "errors", "CPU ms", "x", "client", "MB", "MB unmapped"]


def versions(python, infinity, binary):
    """{package: version}, asked of the interpreters that run them."""
    script = ("import importlib.metadata as m, json, platform, sys\nfound = {'python': platform.python_version()}\nfor name in sys.argv[1:]:\n"
              "    try: found[name] = m.version(name)\n    except m.PackageNotFoundError: pass\nprint(json.dumps(found))")

    def ask(interpreter):
        return json.loads(subprocess.run([str(interpreter), "-c", script, *PACKAGES], check=True, capture_output=True, text=True).stdout)

    found = {"retrieval peer": ask(python), "hindsearch": subprocess.run([binary, "--version"], capture_output=True, text=True).stdout.strip()}
    if infinity:
        found["infinity"] = ask(Path(infinity).parent / "python")
    return found


def medians(rounds, server):
    """{measurement: {figure: median over the rounds}}; errors are summed."""
    visits = [of_round[server] for of_round in rounds if server in of_round]
    result = {}
    for measurement in visits[0] if visits else ():
        figures = [visit[measurement] for visit in visits]
        result[measurement] = {key: statistics.median(f[key] for f in figures) for key, value in figures[0].items()
                               if isinstance(value, (int, float)) and not isinstance(value, bool) and all(f[key] is not None for f in figures)}
        if "errors" in figures[0]:
            result[measurement]["errors"] = sum(f["errors"] for f in figures)
    return result


def ratio(value, best):
    return f"{value:.2f}" if best else "-"


def row(name, figures, best):
    def shown(key, digits=1):
        return f"{figures[key]:,.{digits}f}" if figures.get(key) is not None else "-"

    fast, tail, cheap = best
    return [name, shown("per_second"), ratio(figures["per_second"] / fast, fast) if fast else "-", shown("p50", 2), shown("p95", 2), shown("p99", 2),
            ratio(tail / figures["p99"], tail) if tail and figures.get("p99") else "-", shown("errors", 0), shown("cpu_ms", 2),
            ratio(cheap / figures["cpu_ms"], cheap) if cheap and figures["cpu_ms"] else "-", shown("client_cpu_ms", 3), shown("rss_mb", 0), shown("anon_mb", 0)]


def line(cells):
    return "| " + " | ".join(cells) + " |"


def markdown(header, rounds, servers):
    found = {server: medians(rounds, server) for server in servers}
    found = {server: figures for server, figures in found.items() if figures}
    peers = [server for server in found if server.startswith(("FastAPI", "infinity"))]
    versions = "; ".join(f"{who}: {what if isinstance(what, str) else ', '.join(f'{k} {v}' for k, v in what.items())}" for who, what in header["versions"].items())
    floor = "; ".join(f"{f['connections']} connections {f['per_second']:,.0f}/s, p50 {f['p50']:.3f} ms, {f['client_cpu_ms']:.3f} CPU ms" for f in header["client_floor"])
    lines = [f"{header['rows']:,} x {header['dimensions']} {header['stored']}, {header['threads']} threads on {header['cores']} cores, median of "
             f"{header['rounds']} rounds of {header['seconds']:g} s, {header['questions']:,} questions. {versions}.",
             f"The client against a server that does nothing: {floor}. x: times better than the best peer.", "",
             line(["load", "server", *COLUMNS]), "|" + "---|" * (len(COLUMNS) + 2)]
    measurements = list(dict.fromkeys(m for figures in found.values() for m in figures if m not in ("start", "load")))
    for measurement in measurements:
        beside = [found[peer][measurement] for peer in peers if measurement in found[peer]]
        best = (max(f["per_second"] for f in beside), min(f["p99"] for f in beside), min(f["cpu_ms"] for f in beside)) if beside else (0, 0, 0)
        lines += [line([measurement, *row(server, figures[measurement], best)]) for server, figures in found.items() if measurement in figures]
    lines += ["", line(["server", "ready, s", "same top 3", "exit", "load of the machine"]), "|---|---|---|---|---|"]
    for server, figures in found.items():
        start, load = figures["start"], figures["load"]
        same = f"{start['same_top']:.3f}" if "same_top" in start else "-"
        lines.append(line([server, f"{start['ready_seconds']:.2f}", same, f"{start['exit']:.0f}", f"{load['before']:.1f} to {load['after']:.1f}"]))
    for server, figures in found.items():
        if "cached 1" in figures:
            c = figures["cached 1"]
            lines += ["", f"{server}, cached vector, one client: p50 {c['p50']:.3f} ms; the server's own: search {c['server_search_ms']:.3f}, embed "
                      f"{c['server_embed_ms']:.3f}, queue {c['server_queue_ms']:.3f}, total {c['server_total_ms']:.3f} ms; over the bare search {c['overhead_ms']:.3f} ms."]
    if "search_command_ms" in header:
        lines += ["", f"`hindsearch search`, one query after the other, embedding included: {header['search_command_ms']:.2f} ms."]
    return "\n".join(lines) + "\n"

#!/usr/bin/env python3
"""The same by loops."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from jsonl import Expected, compact, number

WINDOW, SCALE, LIMITS = 3, 0.5, {"C": 30, "hPa": 1020}

with Expected(__file__) as e:
    e.entity("Sensor", "sensor_id")
    e.entity("Name", "sensor_id")
    e.entity("Summary", "sensor_id", "batch_id")
    e.entity("Report", "sensor_id", "batch_id")
    e.entity("Alarm", "alarm_no")
    e.entity("Log")
    with open(e.path("data", "sensors.jsonl")) as f:
        sensors = [json.loads(line) for line in f if line.strip()]
    alarms, reports = [], 0
    for s, sensor in enumerate(sensors):
        readings = sensor["readings"]
        e.put("Sensor", sensor, s)
        e.put("Name", sensor["name"], s)
        for b, start in enumerate(range(0, len(readings), WINDOW)):
            batch = readings[start:start + WINDOW]
            summary = {"alarm": max(batch) > LIMITS[sensor["unit"]], "n": len(batch), "sum": number(sum(batch) * SCALE)}
            if summary["alarm"]:
                alarms.append(f"{sensor['name']} {b}")
            e.put("Summary", summary, s, b)
            e.put("Report", f"north/{sensor['name']} 1.10.010 #{b} (short): {compact(summary)}", s, b)
            reports += 1
    for a, alarm in enumerate(alarms):
        e.put("Alarm", alarm, a)
    e.put("Log", reports)

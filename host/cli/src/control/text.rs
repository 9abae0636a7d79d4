//! Answers, written for people.

use serde_json::Value;

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A table whose columns are as wide as what is in them.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

pub(super) fn drivers(answer: &Value) -> String {
    let mut rows = vec![["NAME", "DRIVER", "STATE", "PROCESS", "RAN", "PENDING", "NODES"].map(str::to_owned).to_vec()];
    for driver in list(answer, "drivers") {
        let nodes = list(driver, "nodes").iter().map(|node| text(node, "path"));
        let left = list(driver, "left").iter().filter_map(Value::as_str).map(|path| format!("({path})"));
        let nodes: Vec<_> = nodes.map(str::to_owned).chain(left).collect();
        let nodes = if nodes.is_empty() { "-".to_owned() } else { nodes.join(" ") };
        let words = ["name", "driver", "state"].map(|name| text(driver, name).to_owned());
        let numbers = ["ran", "pending"].map(|name| driver[name].to_string());
        rows.push(words.into_iter().chain([process(driver)]).chain(numbers).chain([nodes]).collect());
    }
    let host = &answer["host"];
    let addresses: String =
        list(host, "addresses").iter().filter_map(Value::as_str).map(|one| format!(" {one}")).collect();
    format!("host: {} (process {}){addresses}\n{}", text(host, "state"), host["pid"], table(&rows))
}

/// The process of a driver, and its number if it is there.
fn process(driver: &Value) -> String {
    let Some(name) = driver["process"].as_str() else { return "-".to_owned() };
    let ids: Vec<_> = list(driver, "process_ids").iter().map(Value::to_string).collect();
    if ids.is_empty() { name.to_owned() } else { format!("{name}:{}", ids.join(",")) }
}

pub(super) fn nodes(answer: &Value) -> String {
    let line = |node: &Value| {
        let path = text(node, "path");
        let depth = path.matches('/').count().saturating_sub(1);
        let name = path.rsplit('/').next().unwrap_or_default();
        let properties = node["properties"].as_object().into_iter().flatten();
        let properties: String =
            properties.map(|(name, value)| format!(" {name}={}", value.as_str().unwrap_or_default())).collect();
        let driver = match (node["driver"].as_str(), node["phase"].as_str()) {
            (Some(driver), Some(phase)) => match node["process_id"].as_u64() {
                Some(process) => format!("{driver} ({phase}, process {process})"),
                None => format!("{driver} ({phase})"),
            },
            _ => text(node, "state").to_owned(),
        };
        format!("{:indent$}{name}{properties}: {driver}\n", "", indent = 2 * depth)
    };
    match list(answer, "nodes") {
        [] => "(no nodes)\n".to_owned(),
        nodes => nodes.iter().map(line).collect(),
    }
}

/// What became of a driver or node.
pub(super) fn outcome(answer: &Value) -> String {
    let nodes: Vec<_> = list(answer, "nodes").iter().map(|node| text(node, "path")).collect();
    let on = if nodes.is_empty() { String::new() } else { format!(" on {}", nodes.join(", ")) };
    format!("{}: {}{on}\n", text(answer, "target"), text(answer, "state"))
}

pub(super) fn changes(answer: &Value) -> String {
    match list(answer, "changes") {
        [] => "nothing is different\n".to_owned(),
        changes => changes.iter().map(|change| format!("{}\n", text(change, "text"))).collect(),
    }
}

pub(super) fn log_line(word: &str, content: &Value) -> String {
    if word == "lost" {
        return format!("({content} lines are lost: they were not read in time)\n");
    }
    let fields = content["fields"].as_object().into_iter().flatten();
    let fields: String =
        fields.map(|(name, value)| format!(" {name}={}", value.as_str().unwrap_or_default())).collect();
    let driver = content["driver"].as_str().map(|driver| format!(" driver={driver}")).unwrap_or_default();
    format!("{} {:>5} {}{driver}{fields}\n", text(content, "time"), text(content, "level"), text(content, "message"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn drivers_are_a_table_with_where_they_are_and_were() {
        let answer = json!({
            "host": { "state": "running", "pid": 7, "addresses": ["nbd://a"] },
            "drivers": [
                { "name": "disk", "driver": "ramdisk", "state": "running", "ran": 12, "pending": 0,
                  "process": "own", "process_ids": [41],
                  "nodes": [{ "path": "/disk", "phase": "running" }], "left": [] },
                { "name": "n", "driver": "nbd", "state": "failed", "ran": 0, "pending": 0,
                  "nodes": [], "left": ["/disk/disk"] },
                { "name": "x", "driver": "nbd", "state": "unbound", "ran": 0, "pending": 0, "nodes": [], "left": [] },
            ],
        });
        let expected = "\
host: running (process 7) nbd://a
NAME  DRIVER   STATE    PROCESS  RAN  PENDING  NODES
disk  ramdisk  running  own:41   12   0        /disk
n     nbd      failed   -        0    0        (/disk/disk)
x     nbd      unbound  -        0    0        -
";
        assert_eq!(drivers(&answer), expected);
    }

    #[test]
    fn the_tree_is_indented_and_says_who_has_a_node_or_why_nobody_has() {
        let answer = json!({ "nodes": [
            { "path": "/disk", "properties": {}, "driver": "disk", "phase": "running", "state": "",
              "process_id": 41 },
            { "path": "/disk/part", "properties": { "protocol": "block" }, "driver": null, "phase": null, "state": "it is free" },
        ]});
        assert_eq!(nodes(&answer), "disk: disk (running, process 41)\n  part protocol=block: it is free\n");
        assert_eq!(nodes(&json!({ "nodes": [] })), "(no nodes)\n");
    }

    #[test]
    fn log_lines_have_their_fields_and_what_is_lost_is_told() {
        let line = json!({
            "time": "2026-12-01T00:00:00.000Z", "level": "INFO", "driver": "nbd", "message": "a client",
            "fields": { "from": "here" },
        });
        assert_eq!(log_line("log", &line), "2026-12-01T00:00:00.000Z  INFO a client driver=nbd from=here\n");
        assert_eq!(log_line("lost", &json!(5)), "(5 lines are lost: they were not read in time)\n");
    }

    #[test]
    fn outcomes_and_changes_are_a_line_each() {
        let answer = json!({ "target": "nbd", "state": "running", "nodes": [{ "path": "/a/b" }] });
        assert_eq!(outcome(&answer), "nbd: running on /a/b\n");
        assert_eq!(changes(&json!({ "changes": [] })), "nothing is different\n");
        assert_eq!(changes(&json!({ "changes": [{ "text": "driver `x` is new" }] })), "driver `x` is new\n");
    }
}

package spec

import "math"

// The keys of the language. These tables are the one place that knows them:
// documents are checked and read by them, unknown keys get their suggestion from
// them, and the JSON Schema and the reference are written from them. They are
// functions because a key's reader may look at the tables again.

// pipelineTable is the top of a pipeline file.
func pipelineTable() *table {
	return &table{of: "a pipeline file", fields: []field{
		{name: "pipeline", required: true, doc: "The pipeline's name.", shape: nameShape("a pipeline's name")},
		{name: "description", doc: "Free text.", shape: textShape("a text")},
		{name: "params", doc: "Values that a run may override: `name: default`, or a mapping.", shape: &shape{
			says: "a mapping, name to default", blank: true,
			each: paramShape(), key: nameKey("a param's name"), keys: namePattern,
		}},
		{name: "env", doc: "Environment for every body, on top of the inherited one; values may use {param}.", shape: envShape()},
		{name: "defaults", doc: "Keys for every task that does not have them itself.", shape: &shape{
			says: "a mapping of keys of a task", blank: true, object: defaultsTable(),
		}},
		{name: "pools", doc: "Pools that several tasks share: name to size, or to {size, rate}.", shape: &shape{
			says: "a mapping, pool to size", blank: true,
			each: sharedPoolShape(), key: nameKey("a pool's name"), keys: namePattern,
		}},
		{name: "tasks", required: true, doc: "The tasks, name to task.", shape: &shape{
			says: "a mapping, task name to task",
			each: &shape{says: "a mapping of a task's keys", object: taskTable()},
			key:  nameKey("a task's name"), keys: namePattern,
		}},
	}}
}

func nameKey(says string) func(string) *slip {
	return func(key string) *slip { return nameSlip(key, says) }
}

// taskTable is a task.
func taskTable() *table {
	processes := []BodyKind{BodyRun, BodyExec}
	programs := []BodyKind{BodyRun, BodyExec, BodyWorker}
	return &table{of: "a task", oneOf: []string{"run", "exec", "jq", "worker", "source", "func"}, fields: []field{
		{name: "out", required: true, read: (*loader).readOut,
			doc:   "What each job returns: `Entity` (one value) or `Entity<dim>` (a list; it spawns the dimension).",
			shape: refShape("an entity: `Entity` for one value a job, `Entity<dim>` for a list", outPattern)},
		{name: "in", read: (*loader).readIn,
			doc:   "The inputs: one reference, a list of them, or a mapping, alias to reference.",
			shape: inputsShape()},
		{name: "for", read: (*loader).readFor,
			doc:   "The dimensions the task iterates over: one name or a list. Absent: the task is one job.",
			shape: oneOrMore(nameShape("a dimension's name"), "a dimension's name or a list of them", 0)},
		{name: "run", body: true, read: (*loader).readRun,
			doc:   "A script for the shell. $name is the argument, dimension or param of that name.",
			shape: filledShape("a script")},
		{name: "exec", body: true, read: (*loader).readExec,
			doc:   "A program and its arguments, without a shell. {name} is filled in.",
			shape: &shape{says: "a list: the program, then its arguments", list: textShape("a text"), min: 1}},
		{name: "jq", body: true, read: (*loader).readJQ,
			doc:   "A jq filter, run in process; its input is the task's inputs.",
			shape: filledShape("a jq filter")},
		{name: "source", body: true, read: (*loader).readSource,
			doc:   "For tasks without inputs: files, lines, records, or values written here.",
			shape: &shape{says: "a mapping such as {glob: \"data/*.txt\"}", object: sourceTable()}},
		{name: "worker", body: true, read: (*loader).readWorker,
			doc:   "A program that serves many jobs, one JSON line each; or {argv, concurrency}. {param} is filled in.",
			shape: workerShape()},
		{name: "func", body: true, read: (*loader).readFunc,
			doc:   "A Go function that the program which embeds the engine has registered under that name.",
			shape: filledShape("the name of a function")},
		{name: "stdin", only: processes, read: (*loader).readStdin,
			doc: "What standard input carries: `none`, an input's name, or {from, as}. Default: the inputs not mentioned.",
			shape: &shape{
				says:   "`none`, an input's name, or {from: name, as: form}",
				scalar: nameShape("an input's name, or `none`").scalar, json: nameShape("").json,
				object: stdinTable(),
			}},
		{name: "format", defaults: true, only: processes, read: (*loader).readFormat,
			doc: "How the output is read: text, json or file for one value; lines, jsonl, json, nul or files for a list.",
			shape: wordShape("one of text, json, file (one value), lines, jsonl, json, nul, files (a list)",
				"text", "json", "file", "lines", "jsonl", "nul", "files")},
		{name: "file", only: processes, read: (*loader).readFile,
			doc:   "The file's name for `format: file`, with {name} filled in; the glob for `format: files`.",
			shape: filledShape("a file name or a glob")},
		{name: "save", read: (*loader).readSave,
			doc:   "Where each value is linked or copied to, such as results/{doc}.csv; dimensions and params are filled in.",
			shape: filledShape("a path such as results/{doc}.csv")},
		{name: "schema", read: (*loader).readSchema,
			doc:   "The JSON Schema that every value must satisfy, or the path of a file that holds it.",
			shape: &shape{says: "a JSON Schema, or the path of one", any: true, json: map[string]any{"type": []any{"object", "boolean", "string"}}}},
		{name: "pool", defaults: true, read: (*loader).readPool,
			doc:   "How many jobs of the task run at once: a number, a shared pool, or {env: NAME} for one from the environment.",
			shape: poolShape()},
		{name: "order", read: (*loader).readOrder,
			doc:   "Which ready jobs go first: dimensions of `for`, `-dim` for descending.",
			shape: oneOrMore(orderShape(), "a dimension of `for`, `-dim` for descending, or a list of these", 0)},
		{name: "cpus", defaults: true, read: (*loader).readCPUs,
			doc: "How many of the machine's CPUs one job takes.", shape: numberShape("a number of CPUs such as 2 or 0.5", minCPUs, maxCPUs)},
		{name: "mem", defaults: true, read: (*loader).readMem,
			doc: "How much of the machine's memory one job takes, and may have: all its processes together, or each where there are no control groups.", shape: sizeShape()},
		{name: "gpus", defaults: true, read: (*loader).readGPUs,
			doc: "How many of the machine's GPUs one job takes.", shape: wholeShape("a whole number from 0", 0, maxGPUs)},
		{name: "retry", defaults: true, read: (*loader).readRetry,
			doc:   "How many more attempts a failed job gets, or a mapping.",
			shape: retryShape()},
		{name: "timeout", defaults: true, read: (*loader).readTimeout,
			doc: "How long an attempt may take before it is stopped; 0 for no limit.", shape: durationShape()},
		{name: "grace", defaults: true, read: (*loader).readGrace,
			doc: "How long a stopped job has between SIGTERM and SIGKILL. Default 10s.", shape: durationShape()},
		{name: "shell", defaults: true, only: []BodyKind{BodyRun}, read: (*loader).readShell,
			doc:   "The shell of `run`: sh (default), bash, or a list that the script is appended to.",
			shape: shellShape()},
		{name: "env", defaults: true, only: programs, read: (*loader).readEnv,
			doc: "Extra environment; values may use {name}.", shape: envShape()},
		{name: "workdir", defaults: true, only: programs, read: (*loader).readWorkdir,
			doc:   "The body's working directory, relative to the pipeline file's folder (the default).",
			shape: filledShape("a folder")},
		{name: "key", read: (*loader).readKey,
			doc:   "With a list: a jq filter that gives each item its label; of files their base name without it.",
			shape: filledShape("a jq filter")},
		{name: "on_error", defaults: true, read: (*loader).readOnError,
			doc:   "What a job that failed for good does: stop (no new jobs start), continue, or hole (its value is recorded as missing).",
			shape: wordShape("one of stop, continue, hole", "stop", "continue", "hole")},
		{name: "deps", read: (*loader).readDeps,
			doc:   "Files or globs whose content the body depends on.",
			shape: oneOrMore(filledShape("a file or glob"), "a file or glob, or a list of them", 0)},
		{name: "keep", defaults: true, read: (*loader).readKeep,
			doc: "false: the values may be deleted once everything that takes them is done.", shape: boolShape()},
		{name: "cache", defaults: true, read: (*loader).readCache,
			doc: "false: never reuse an earlier result of this body.", shape: boolShape()},
		{name: "description", doc: "Free text.", read: (*loader).readDescription, shape: textShape("a text")},
	}}
}

// defaultsTable is the keys of a task that may stand under `defaults`.
func defaultsTable() *table {
	t := &table{of: "`defaults`"}
	for _, f := range taskTable().fields {
		if f.defaults {
			t.fields = append(t.fields, f)
		}
	}
	return t
}

// oneOrMore is one of s, or a list of them.
func oneOrMore(s *shape, says string, atLeast int) *shape {
	return &shape{says: says, scalar: s.scalar, json: s.json, list: s, min: atLeast}
}

func inputsShape() *shape {
	one := &shape{
		says:   "a reference: `Entity`, or `Entity<dim>` for a slice",
		scalar: refShape("", "").scalar,
		json:   refShape("", refPattern).json,
		object: &table{of: "an input", fields: []field{
			{name: "from", required: true, doc: "The reference.", shape: refShape("a reference", refPattern)},
			{name: "holes", doc: "null: a hole of the slice is null in the list, instead of making a hole of the job.", shape: nullShape()},
		}},
	}
	return &shape{
		says:   "a reference, a list of them, or a mapping, alias to reference",
		scalar: one.scalar, json: one.json,
		list: one, each: one, key: nameKey("an argument's name"), keys: namePattern,
		object: one.object, objectHas: "holes",
	}
}

func paramShape() *shape {
	return &shape{
		says:   "a default, or a mapping of a param's keys; write \"\" for the empty text, {} for no default",
		scalar: func(string, *node) *slip { return nil },
		object: &table{of: "a param", fields: []field{
			{name: "default", doc: "The value of a run that gives none; absent: a run must give it.", shape: anyShape()},
			{name: "type", doc: "The value's type. Default: string.",
				shape: wordShape("one of string, int, float, bool, json", "string", "int", "float", "bool", "json")},
			{name: "env", doc: "An environment variable that may give the value.", shape: variableShape()},
			{name: "description", doc: "Free text.", shape: textShape("a text")},
			{name: "choices", doc: "The values allowed.", shape: &shape{says: "a list of values", list: anyShape(), min: 1}},
			{name: "secret", doc: "true: never printed or stored, and no part of what makes a result valid.", shape: boolShape()},
		}},
	}
}

const variablePattern = "^[A-Za-z_][A-Za-z0-9_]*$"

func variableShape() *shape {
	return &shape{
		says:   "the name of an environment variable",
		scalar: func(text string, n *node) *slip { return variableSlip(text) },
		json:   map[string]any{"type": textTypes(), "pattern": variablePattern},
	}
}

func variableSlip(text string) *slip {
	if isVariable(text) {
		return nil
	}
	return &slip{"name", "`" + quotable(text) + "` is not the name of an environment variable", "letters, digits and _, no digit first"}
}

// maxVariables is how many variables one `env` may have.
const maxVariables = 1000

func envShape() *shape {
	return &shape{
		says: "a mapping, variable to value", blank: true, max: maxVariables,
		each: textShape("a text"), key: variableSlip, keys: variablePattern,
	}
}

func orderShape() *shape {
	return &shape{
		says: "a dimension of `for`, `-dim` for descending",
		scalar: func(text string, n *node) *slip {
			if text != "" && text[0] == '-' {
				text = text[1:]
			}
			return nameSlip(text, "a dimension's name")
		},
		json: map[string]any{"type": textTypes(), "pattern": "^-?[a-z][a-z0-9_]*$"},
	}
}

const (
	maxPool        = 1_000_000
	maxConcurrency = 10_000
	minCPUs        = 0.001
	maxCPUs        = 100_000
	maxGPUs        = 10_000
)

func poolShape() *shape {
	number := wholeShape("a whole number from 1, the name of a shared pool, or {env: NAME}", 1, maxPool)
	return &shape{
		says: number.says,
		scalar: func(text string, n *node) *slip {
			if IsName(text) {
				return nil // whether there is such a pool is looked at where it is read
			}
			return number.scalar(text, n)
		},
		json: map[string]any{"anyOf": []any{number.json, map[string]any{"type": "string", "pattern": namePattern}}},
		object: &table{of: "a pool", fields: []field{
			{name: "env", required: true, doc: "The environment variable that holds the number.", shape: variableShape()},
		}},
	}
}

func sharedPoolShape() *shape {
	size := wholeShape("a whole number from 1", 1, maxPool)
	return &shape{
		says:   "a size, or {size, rate}",
		scalar: size.scalar, json: size.json,
		object: &table{of: "a shared pool", fields: []field{
			{name: "size", doc: "How many jobs of all its tasks run at once.", shape: size},
			{name: "rate", doc: "How many jobs of all its tasks may start in a second, minute or hour.", shape: rateShape()},
		}},
	}
}

func workerShape() *shape {
	argv := &shape{says: "a list: the program, then its arguments", list: textShape("a text"), min: 1}
	return &shape{
		says: "a list: the program, then its arguments; or {argv, concurrency}",
		list: argv.list, min: 1,
		object: &table{of: "`worker`", fields: []field{
			{name: "argv", required: true, doc: "The program and its arguments.", shape: argv},
			{name: "concurrency", doc: "How many jobs one process is given at once. Default 1.", shape: wholeShape("a whole number from 1", 1, maxConcurrency)},
		}},
	}
}

func retryShape() *shape {
	times := wholeShape("how many more attempts: a whole number from 0", 0, 1_000_000)
	status := wholeShape("an exit status, \"exit\", \"signal\", \"timeout\" or \"output\"", 1, 255)
	words := wordShape(status.says, "exit", "signal", "timeout", "output")
	on := &shape{
		says: status.says,
		scalar: func(text string, n *node) *slip {
			if wholePattern.MatchString(text) {
				return status.scalar(text, n)
			}
			return words.scalar(text, n)
		},
		json: map[string]any{"anyOf": []any{status.json, words.json}},
	}
	return &shape{
		says:   "a number of attempts, or a mapping with `times`",
		scalar: times.scalar, json: times.json,
		object: &table{of: "`retry`", fields: []field{
			{name: "times", required: true, doc: "How many more attempts after the first.", shape: times},
			{name: "backoff", doc: "The wait before the second attempt. Default 1s.", shape: durationShape()},
			{name: "factor", doc: "What each further wait is longer by. Default 2.", shape: numberShape("a number from 1", 1, 1e6)},
			{name: "max_backoff", doc: "The longest wait. Default 1m.", shape: durationShape()},
			{name: "jitter", doc: "The part of a wait that is left to chance, 0 to 1. Default 0.1.", shape: numberShape("a number from 0 to 1", 0, 1)},
			{name: "on", doc: "What is tried again: exit statuses, exit (any), signal, timeout, output. Default: all.",
				shape: oneOrMore(on, "a list of exit statuses, \"exit\", \"signal\", \"timeout\" and \"output\"", 1)},
		}},
	}
}

func shellShape() *shape {
	words := wordShape("sh, bash, or a list such as [zsh, -e, -c]", "sh", "bash")
	return &shape{
		says: words.says,
		scalar: func(text string, n *node) *slip {
			if s := words.scalar(text, n); s != nil {
				return &slip{rule: "value", mend: "any other shell is written as a list: [zsh, -e, -c]"}
			}
			return nil
		},
		json: words.json,
		list: textShape("a text"), min: 1,
	}
}

func stdinTable() *table {
	return &table{of: "`stdin`", fields: []field{
		{name: "from", required: true, doc: "The input's name.", shape: nameShape("an input's name")},
		{name: "as", doc: "text: as it is; lines, nul, jsonl: value by value; json: one JSON value.",
			shape: wordShape("one of text, lines, nul, json, jsonl", "text", "lines", "nul", "json", "jsonl")},
	}}
}

func sourceTable() *table {
	path := func(name, doc string) field {
		return field{name: name, doc: doc, shape: filledShape("a file, relative to the pipeline file's folder")}
	}
	return &table{
		of:    "`source`",
		oneOf: []string{"glob", "lines", "jsonl", "json", "csv", "tsv", "values", "count"},
		fields: []field{
			{name: "glob", doc: "Files, sorted by path; ** goes through folders.",
				shape: oneOrMore(filledShape("a pattern"), "a pattern or a list of them", 1)},
			{name: "copy", doc: "With glob: store the files instead of taking them by reference.", shape: boolShape()},
			path("lines", "The lines of a text file."),
			path("jsonl", "A JSON value a line."),
			path("json", "The items of a JSON array."),
			path("csv", "Objects keyed by the header."),
			path("tsv", "The same, separated by tabs."),
			{name: "values", doc: "The values themselves.", shape: &shape{says: "a list of values", list: anyShape()}},
			{name: "count", doc: "The integers from 0 to n − 1.", shape: wholeShape("a whole number from 0", 0, math.MaxUint32)},
		},
	}
}

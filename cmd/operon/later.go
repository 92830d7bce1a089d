package main

// Commands and flags that are part of operon's language and not there yet: a
// name that is known must not be answered as if it were a slip of the fingers.

// laterCommands are not to be changed.
var laterCommands = map[string]string{
	"check-consistency": "a run resumes what it finds, and says so where it can't",
	"rebuild":           "a run makes the metadata again by itself where it is missing",
	"clean":             "remove the state directory to start over",
	"serve":             "operon status --watch shows a run",
}

// laterFlags are not to be changed.
var laterFlags = map[string]map[string]string{
	"run": {
		"workers":           "-j sets how many jobs run at once",
		"redo":              "--fresh runs everything again",
		"rebuild":           "a run makes the metadata again by itself where it is missing",
		"skip":              "",
		"redo-inconsistent": "--fresh runs everything again",
		"retry-holes":       "",
		"only":              "--until runs a task and what it needs",
		"sample":            "",
		"memo-limit":        "",
		"cpus":              "-j sets how many jobs run at once",
		"mem":               "",
		"gpus":              "",
		"watch":             "",
	},
}

func notYet(what, instead string) error {
	if instead == "" {
		return usagef("%s is not there yet", what)
	}
	return usagef("%s is not there yet; %s", what, instead)
}

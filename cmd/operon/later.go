package main

// Flags that are part of operon's language and not there yet: a
// name that is known must not be answered as if it were a slip of the fingers.

// laterFlags are not to be changed.
var laterFlags = map[string]map[string]string{
	"run": {
		"watch": "",
	},
}

func notYet(what, instead string) error {
	if instead == "" {
		return usagef("%s is not there yet", what)
	}
	return usagef("%s is not there yet; %s", what, instead)
}

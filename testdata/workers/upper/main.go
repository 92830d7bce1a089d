// A worker in Go: upper-cases the argument word.
//
// One JSON line comes in for each job, one goes out: {"id", "value"}; of a task
// that returns a list {"id", "values"}; of a job that fails {"id", "error",
// "retry"}. What is dear is done once, before the loop. When standard input ends,
// the worker does. What is to be logged goes to standard error.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"
	"strings"
)

type job struct {
	ID   uint64            `json:"id"`
	Args map[string]string `json:"args"`
}

type answer struct {
	ID    uint64  `json:"id"`
	Value *string `json:"value,omitempty"`
	Error string  `json:"error,omitempty"`
}

func main() {
	in := bufio.NewReader(os.Stdin)
	jobs := json.NewDecoder(in)
	out := bufio.NewWriter(os.Stdout)
	answers := json.NewEncoder(out)
	for jobs.More() {
		var j job
		if err := jobs.Decode(&j); err != nil {
			log.Fatal(err)
		}
		a := answer{ID: j.ID}
		if word, ok := j.Args["word"]; ok {
			upper := strings.ToUpper(word)
			a.Value = &upper
		} else {
			a.Error = "there is no word"
		}
		if err := answers.Encode(a); err != nil {
			log.Fatal(err)
		}
		if err := out.Flush(); err != nil {
			log.Fatal(err)
		}
	}
}

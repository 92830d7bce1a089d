package spec_test

import (
	"fmt"

	"operon/spec"
)

func ExampleLoad() {
	p, err := spec.Load([]byte(`
pipeline: letters
tasks:
  words:
    out: Word<word_no>
    run: printf '%s\n' Bonjour Hallo
  count:
    in: Word
    for: word_no
    out: Count
    run: echo "${word}" | wc -c
`), spec.Options{File: "letters.yaml"})
	if err != nil {
		fmt.Print(err)
		return
	}
	for _, t := range p.Topo {
		fmt.Println(t.Name, t.ContextNames(), t.Out.DimNames(), t.Mentions)
	}
	// Output:
	// words [] [word_no] []
	// count [word_no] [word_no] [word]
}

func ExampleErrors() {
	_, err := spec.Load([]byte(`
pipeline: letters
tasks:
  words:
    out: Word<word_no>
    run: printf '%s\n' Bonjour Hallo
  count:
    in: Wrod
    out: Count
    timout: 5s
    run: wc -c
`), spec.Options{File: "letters.yaml"})
	fmt.Print(err)
	// Output:
	// letters.yaml:8:9: there is no entity `Wrod`: no task returns it (found "Wrod"); did you mean `Word`?
	// letters.yaml:10:5: a task has no key `timout` (found "timout"); did you mean `timeout`?
}

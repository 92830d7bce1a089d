package term

import "testing"

func TestPolicy(t *testing.T) {
	tests := []struct {
		name     string
		terminal bool
		env      map[string]string
		want     Facts
	}{
		{"a terminal", true, nil, Facts{Terminal: true, Color: true, Live: true}},
		{"a pipe", false, nil, Facts{}},
		{"dumb", true, map[string]string{"TERM": "dumb"}, Facts{Terminal: true}},
		{"NO_COLOR", true, map[string]string{"NO_COLOR": "1"}, Facts{Terminal: true, Live: true}},
		{"NO_COLOR empty", true, map[string]string{"NO_COLOR": ""}, Facts{Terminal: true, Color: true, Live: true}},
		{"forced", false, map[string]string{"CLICOLOR_FORCE": "1"}, Facts{Color: true}},
		{"not forced", false, map[string]string{"CLICOLOR_FORCE": "0"}, Facts{}},
		{"forced and NO_COLOR", false, map[string]string{"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, Facts{}},
		{"CI", true, map[string]string{"CI": "true"}, Facts{Terminal: true, Color: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := decide(tt.terminal, func(k string) string { return tt.env[k] }); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestPaint(t *testing.T) {
	if got := (Facts{Color: true}).Paint(Red, "x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("%q", got)
	}
	if got := (Facts{}).Paint(Red, "x"); got != "x" {
		t.Errorf("%q", got)
	}
}

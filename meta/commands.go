package meta

import (
	"bytes"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"operon/spec/value"
	"operon/storage/boltfile"
)

// CommandKind names a lifecycle command. The numbers are part of the format.
type CommandKind uint8

const (
	CommandHello               CommandKind = 1 // Text is the session
	CommandInstance            CommandKind = 2 // Text is the configuration
	CommandCreate              CommandKind = 3 // Text is the task
	CommandSchedule            CommandKind = 4
	CommandCompact             CommandKind = 5 // Outcome says how the dataflow ended
	CommandConfigure           CommandKind = 6 // Text is the task
	CommandInitializationEnded CommandKind = 7
)

// Command is a lifecycle command of the history: what the workers were told, in
// the order of Index.
type Command struct {
	Index       uint64
	Kind        CommandKind
	Dataflow    uint64 // 0 for commands that are about none
	Fingerprint value.Digest
	Outcome     uint8
	Text        string
}

func appendCommand(b []byte, c *Command) []byte {
	b = append(b, version, byte(c.Kind))
	b = binary.AppendUvarint(b, c.Dataflow)
	b = append(b, c.Fingerprint[:]...)
	b = append(b, c.Outcome)
	return boltfile.AppendBytes(b, c.Text)
}

func decodeCommand(index uint64, body []byte) (c Command, ok bool) {
	f := boltfile.NewFields(body)
	if f.Byte() != version {
		return c, false
	}
	c.Index, c.Kind = index, CommandKind(f.Byte())
	c.Dataflow = f.Uvarint()
	copy(c.Fingerprint[:], f.Take(len(c.Fingerprint)))
	c.Outcome = f.Byte()
	c.Text = f.String()
	return c, f.Err() == nil
}

// PutCommand puts a command into the history.
func (b *Batch) PutCommand(c Command) {
	b.ops = append(b.ops, op{kind: opCommand, id: c.Index, body: appendCommand(nil, &c)})
}

// DropCommands empties the history: what is put afterwards is all of it.
func (b *Batch) DropCommands() { b.ops = append(b.ops, op{kind: opDropCommands}) }

// putCommand puts a command; the bucket's sequence counts them.
func putCommand(tx *bolt.Tx, p *op) error {
	b, err := createBucket(tx, []byte(commandsBucket))
	if err != nil {
		return fmt.Errorf("create bucket of commands: %w", err)
	}
	key := dataflowKey(p.id)
	if b.Get(key) == nil {
		if err := b.SetSequence(b.Sequence() + 1); err != nil {
			return fmt.Errorf("count commands: %w", err)
		}
	}
	return put(b, []byte(commandsBucket), key, p.body)
}

func dropCommands(tx *bolt.Tx) error {
	if err := dropBucket(tx, []byte(commandsBucket)); err != nil {
		return fmt.Errorf("drop commands: %w", err)
	}
	return nil
}

// Commands are the lifecycle commands of the run that wrote last, in the order in
// which they were given.
func (r *Reader) Commands() ([]Command, error) {
	b := r.tx.Bucket([]byte(commandsBucket))
	if b == nil {
		return nil, nil
	}
	var list []Command
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		body, ok := boltfile.Unseal([]byte(commandsBucket), k, v)
		var cmd Command
		if ok = ok && len(k) == 8; ok {
			cmd, ok = decodeCommand(binary.BigEndian.Uint64(k), body)
		}
		if !ok || !bytes.Equal(k, dataflowKey(cmd.Index)) {
			return nil, &Damage{Detail: fmt.Sprintf("a command of the history cannot be read (%x)", k)}
		}
		list = append(list, cmd)
	}
	if uint64(len(list)) != b.Sequence() {
		return nil, &Damage{Detail: fmt.Sprintf("there are %d commands of %d", len(list), b.Sequence())}
	}
	return list, nil
}

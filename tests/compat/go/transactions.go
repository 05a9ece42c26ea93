package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Decider ends transactions as the property "fate" of their messages says: one letter for the local transaction, one
// for each question, the last of them for all that follow. c commits, r rolls back, u is unknown.
type Decider struct {
	mutex sync.Mutex
	asked []Received
	turns map[string]int
}

func (decider *Decider) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return decide(message.GetProperty("fate"), 0)
}

func (decider *Decider) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	decider.mutex.Lock()
	defer decider.mutex.Unlock()
	body := hex.EncodeToString(message.Body)
	decider.asked = append(decider.asked, Received{
		Topic: message.Topic, BodyHex: body, Properties: message.GetProperties()})
	decider.turns[body]++
	return decide(message.GetProperty("fate"), decider.turns[body])
}

func decide(fate string, turn int) primitive.LocalTransactionState {
	if turn >= len(fate) {
		turn = len(fate) - 1
	}
	states := map[byte]primitive.LocalTransactionState{
		'c': primitive.CommitMessageState, 'r': primitive.RollbackMessageState, 'u': primitive.UnknowState,
	}
	return states[fate[turn]]
}

func (clients *Clients) startTransactions(request Request) error {
	decider := &Decider{turns: map[string]int{}}
	started, err := rocketmq.NewTransactionProducer(decider,
		producer.WithNameServer(nameServers(request)), producer.WithGroupName(request.Group),
		producer.WithInstanceName(request.Name))
	if err != nil {
		return err
	}
	clients.transactions[request.Name] = started
	clients.deciders[request.Name] = decider
	clients.stops[request.Name] = started.Shutdown
	return started.Start()
}

func (clients *Clients) transact(request Request) ([]Sent, error) {
	using, known := clients.transactions[request.Name]
	if !known {
		return nil, fmt.Errorf("no transaction producer %q", request.Name)
	}
	results := make([]Sent, len(request.Messages))
	for index, message := range request.Messages {
		made, err := message.made()
		if err != nil {
			return nil, err
		}
		result, err := using.SendMessageInTransaction(context.Background(), made)
		if err != nil {
			results[index] = Sent{Error: err.Error()}
			continue
		}
		results[index] = sent(result.SendResult, nil)
	}
	return results, nil
}

func (clients *Clients) questions(request Request) ([]Received, error) {
	decider, known := clients.deciders[request.Name]
	if !known {
		return nil, fmt.Errorf("no transaction producer %q", request.Name)
	}
	deadline := time.Now().Add(time.Duration(request.TimeoutMs) * time.Millisecond)
	for {
		decider.mutex.Lock()
		asked := append([]Received{}, decider.asked...)
		decider.mutex.Unlock()
		if len(asked) >= request.Count || time.Now().After(deadline) {
			return asked, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

"""Mistake: this word stands first and the oldest last."""



def windows(x, n):
    batch, time, width = x.shape
    out = x.new_zeros(batch, time, n, width)
    for back in range(n):
        out[:, back:, back] = x[:, :time - back]
    return out.reshape(batch, time, n * width)
